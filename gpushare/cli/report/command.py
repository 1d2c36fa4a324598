"""``report``: its flags. What it needs is imported when it runs."""

from typing import Final

import click

from gpushare.cli.lib.flag_types import Duration, DurationType, UrlType
from gpushare.cli.lib.flags import cluster_option, connection_options, namespace_options
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare report -A --since 24h --prometheus http://127.0.0.1:9090
  kubectl gpushare report -A --since 4w --prometheus http://127.0.0.1:9090 -o csv > usage.csv"""


@click.command("report", context_settings=CONTEXT, epilog=_EXAMPLES)
@namespace_options
@click.option(
    "--since",
    type=DurationType(),
    default="24h",
    show_default=True,
    metavar="TIME",
    help="How far back from now.",
)
@click.option("--prometheus", type=UrlType(), metavar="URL", required=True, help="Where the series are.")
@cluster_option
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "csv"]), help="Output format.")
@connection_options
def report(  # noqa: PLR0913 - the flags
    *,
    namespace: str | None,
    everywhere: bool,
    since: Duration,
    prometheus: str,
    cluster: str | None,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Report GPU-hours and GiB-hours of each workload, allocated and used.

    With -A, all rows and what no container had add up to the GPUs of the cluster exactly. Time without data
    is not counted, and named.
    """
    import time

    from gpushare.cli.lib import screen as display
    from gpushare.cli.report import accounting
    from gpushare.cli.report import collect as gather
    from gpushare.cli.report import render as view
    from gpushare.overview.node_document import serialized

    flags = display.Flags(output=output, kubeconfig=kubeconfig, context=context)
    selected = flags.source.namespace(namespace, everywhere=everywhere)
    span = gather.span_of(time.time(), since.seconds)
    facts = gather.gather(flags.source, selected, prometheus, span, cluster)
    found = accounting.account(
        facts.gpus,
        facts.shares,
        facts.owners,
        step_s=span.step_s,
        steps=span.steps,
        whole=selected is None,
    )
    screen = display.Screen(redraw=False)
    if output == "csv":
        screen.show(view.comma_separated(found))
    elif output:
        screen.show(serialized(view.document(found, span, facts.notes), output))
    else:
        screen.show(display.formatted(view.table(found)))
    screen.warn([*view.gap_lines(found, span), *facts.notes])
    display.note_namespace(screen, found.rows, selected)
