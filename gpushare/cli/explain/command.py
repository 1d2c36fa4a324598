"""``explain``: its flags. What it needs is imported when it runs."""

from typing import Any, Final

import click

from gpushare.cli.lib.candidates import pending_pods
from gpushare.cli.lib.flags import document_option, namespace_options, pod_argument_of, with_namespace
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare explain trainer
  kubectl gpushare explain trainer -n team-a -o json"""


@click.command("explain", context_settings=CONTEXT, epilog=_EXAMPLES)
@pod_argument_of(pending_pods, required=True)
@namespace_options
@document_option
@with_namespace
def explain(*, source: Any, pod: str, namespace: str | None, output: str | None) -> None:
    """Explain why POD is pending, and what would make it fit.

    Shows the reason for each node and GPU, in the words of the extender, and remedies: a smaller request, the
    pods to evict, a GPU to uncordon, a node to add. With the rights of one namespace, it names no other
    namespace. Reads only. Exit code 0 with an answer, 1 without an answer.
    """
    from gpushare.cli.explain.collect import explained
    from gpushare.cli.explain.render import answer_document, text
    from gpushare.cli.lib.screen import serialized

    found = source.ask(lambda client: explained(client, pod, namespace))
    click.echo(serialized(answer_document(found), output) if output else text(found), nl=False)
