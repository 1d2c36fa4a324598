"""``recommend``: its flags. What it needs is imported when it runs."""

from typing import Final

import click
from click.core import ParameterSource

from gpushare.cli.lib.flag_types import Duration, DurationType, UrlType
from gpushare.cli.lib.flags import cluster_option, connection_options, document_option, namespace_options
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
    type=UrlType(),
    metavar="URL",
    help="Read peaks from Prometheus; without it, from the exporters since the start of each container.",
)
@click.option(
    "--window",
    type=DurationType(),
    default="7d",
    show_default=True,
    metavar="TIME",
    help="How far back, with --prometheus.",
)
@cluster_option
@document_option
@connection_options
def recommend(  # noqa: PLR0913 - the flags
    *,
    namespace: str | None,
    everywhere: bool,
    margin: int,
    prometheus: str | None,
    window: Duration,
    cluster: str | None,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Suggest GPU memory requests of workloads, from peaks and refused allocations.

    A suggestion is the peak plus a margin in whole units of the node; after refused allocations, at least the
    limit plus the margin. Without a peak, "now only" or "no data" is shown instead. Changes nothing.
    """
    from gpushare.cli.lib import screen as display
    from gpushare.cli.recommend import collect as gather
    from gpushare.cli.recommend import render as view
    from gpushare.cli.recommend import sizing
    from gpushare.overview.node_document import serialized

    source_of = click.get_current_context().get_parameter_source
    if not prometheus and (cluster or source_of("window") is not ParameterSource.DEFAULT):
        raise click.UsageError("--window and --cluster select series in Prometheus; they need --prometheus")
    flags = display.Flags(output=output, kubeconfig=kubeconfig, context=context)
    selected = flags.source.namespace(namespace, everywhere=everywhere)
    screen = display.Screen(redraw=False)
    observed = gather.gather(
        flags.source,
        selected,
        screen.report,
        prometheus=prometheus,
        window_s=window.seconds,
        cluster=cluster,
    )
    basis = sizing.Basis.WINDOW if prometheus else sizing.Basis.SINCE_START
    found = sizing.recommendations(observed, margin, basis)
    if output:
        content = view.document(found, margin, window.seconds if prometheus else None)
        screen.show(serialized(content, output))
        return
    screen.show(display.formatted(view.table(found, window.text)))
    display.note_namespace(screen, found, selected)
    if found:
        click.echo(view.rule(margin), nl=False)
