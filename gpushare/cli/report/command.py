"""``report``: its flags. What it needs is imported when it runs."""

from typing import Any, Final

import click

from gpushare.cli.lib.flag_types import DURATION, URL, Duration
from gpushare.cli.lib.flags import cluster_option, namespace_options, with_namespace
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare report -A --since 24h --prometheus http://127.0.0.1:9090
  kubectl gpushare report -A --since 4w --prometheus http://127.0.0.1:9090 -o csv > usage.csv"""


@click.command("report", context_settings=CONTEXT, epilog=_EXAMPLES)
@namespace_options
@click.option(
    "--since",
    type=DURATION,
    default="24h",
    show_default=True,
    metavar="TIME",
    help="How far back from now.",
)
@click.option("--prometheus", type=URL, metavar="URL", required=True, help="Where the series are.")
@cluster_option
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "csv"]), help="Output format.")
@with_namespace
def report(
    *,
    source: Any,
    namespace: str | None,
    since: Duration,
    prometheus: str,
    cluster: str | None,
    output: str | None,
) -> None:
    """Report GPU-hours and GiB-hours of each workload, allocated and used.

    With -A, all rows and what no container had add up to the GPUs of the cluster exactly. Time without data
    is not counted, and named.
    """
    import time

    from gpushare.cli.lib.screen import Screen, serialized
    from gpushare.cli.report import render
    from gpushare.cli.report.accounting import account
    from gpushare.cli.report.collect import collect, span_of

    span = span_of(time.time(), since.seconds)
    facts = source.ask(lambda client: collect(client, namespace, prometheus, span, cluster))
    found = account(facts, span, whole=namespace is None)
    screen = Screen()
    if output == "csv":
        screen.show(render.comma_separated(found))
    elif output:
        screen.show(serialized(render.account_document(found, span, facts.notes), output))
    else:
        screen.show_table(render.table(found))
    screen.warn([*render.gap_lines(found, span), *facts.notes])
    screen.note_namespace(found.rows, namespace)
