"""``explain``: its flags. What it needs is imported when it runs."""

from typing import Final

import click

from gpushare.cli import complete as completion
from gpushare.cli.lib.flag_types import PodType
from gpushare.cli.lib.flags import connection_options, document_option, namespace_options
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare explain trainer
  kubectl gpushare explain trainer -n team-a -o json"""


@click.command("explain", context_settings=CONTEXT, epilog=_EXAMPLES)
@click.argument("pod", type=PodType(), shell_complete=completion.pending_pods)
@namespace_options
@document_option
@connection_options
def explain(
    *,
    pod: str,
    namespace: str | None,
    everywhere: bool,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Explain why POD is pending, and what would make it fit.

    Shows the reason for each node and GPU, in the words of the extender, and remedies: a smaller request, the
    pods to evict, a GPU to uncordon, a node to add. Reads only. Exit code 0 with an answer, 1 without.
    """
    from gpushare.cli.explain.collect import read_facts
    from gpushare.cli.explain.render import document, text
    from gpushare.overview.cluster import ApiSource
    from gpushare.overview.explain.answer import answer
    from gpushare.overview.node_document import serialized

    source = ApiSource(kubeconfig, context)
    found = answer(read_facts(source, pod, source.namespace(namespace, everywhere=everywhere)))
    click.echo(serialized(document(found), output) if output else text(found), nl=False)
