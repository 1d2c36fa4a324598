"""``recommend``: its flags. What it needs is imported when it runs."""

from typing import Any, Final

import click
from click.core import ParameterSource

from gpushare.cli.lib.flag_types import DURATION, URL, Duration
from gpushare.cli.lib.flags import cluster_option, document_option, namespace_options, with_namespace
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare recommend -n team-a
  kubectl gpushare recommend -A --prometheus http://127.0.0.1:9090 --window 7d
  kubectl gpushare recommend -A -o json | jq '.items[] | select(.verdict == "raise")'"""


@click.command("recommend", context_settings=CONTEXT, epilog=_EXAMPLES)
@namespace_options
@click.option(
    "--margin",
    type=click.IntRange(0, 400),
    default=20,
    show_default=True,
    metavar="PERCENT",
    help="Room above the peak.",
)
@click.option(
    "--prometheus",
    type=URL,
    metavar="URL",
    help="Read peaks from Prometheus; without it, from the exporters since the start of each container.",
)
@click.option(
    "--window",
    type=DURATION,
    default="7d",
    show_default=True,
    metavar="TIME",
    help="How far back, with --prometheus.",
)
@cluster_option
@document_option
@with_namespace
def recommend(
    *,
    source: Any,
    namespace: str | None,
    margin: int,
    prometheus: str | None,
    window: Duration,
    cluster: str | None,
    output: str | None,
) -> None:
    """Suggest GPU memory requests of workloads, from peaks and refused allocations.

    A suggestion is the peak plus a margin in whole units of the node; after refused allocations, the limit that
    admits them plus the margin. It is at most the GPU. Without a peak, "now only" or "no data" is shown instead. Changes nothing.
    """
    from gpushare.cli.lib.screen import Screen, serialized
    from gpushare.cli.recommend import render
    from gpushare.cli.recommend.collect import Peaks, collect
    from gpushare.cli.recommend.sizing import Basis, recommendations

    source_of = click.get_current_context().get_parameter_source
    if not prometheus and (cluster or source_of("window") is not ParameterSource.DEFAULT):
        raise click.UsageError("--window and --cluster select series in Prometheus; they need --prometheus")
    screen = Screen()
    peaks = Peaks(prometheus, window.seconds, cluster)
    observed = source.ask(lambda client: collect(client, namespace, peaks, screen.report))
    found = recommendations(observed, margin, Basis.WINDOW if prometheus else Basis.SINCE_START)
    if output:
        searched_s = window.seconds if prometheus else None
        screen.show(serialized(render.recommendations_document(found, margin, searched_s), output))
        return
    screen.show_table(render.table(found, window.text), namespace)
    if found:
        click.echo(render.rule(margin), nl=False)
