"""``recommend``: its flags. What it needs is imported when it runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from gpushare.cli.lib.flag_types import DURATION, URL, Duration
from gpushare.cli.lib.flags import cluster_option, document_option, namespace_options, with_namespace
from gpushare.runtime.program import CONTEXT

if TYPE_CHECKING:
    from gpushare.cli.recommend.sizing import Recommendation

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare recommend -n team-a
  kubectl gpushare recommend -A --prometheus http://127.0.0.1:9090 --window 7d
  kubectl gpushare recommend deployment/web --apply
  kubectl gpushare recommend -A -o json | jq '.items[] | select(.verdict == "raise")'"""


@dataclass(frozen=True, slots=True)
class _Flags:
    """Where peaks come from, and whether suggestions are applied."""

    prometheus: str | None
    window: Duration
    cluster: str | None
    applies: bool
    yes: bool


@click.command("recommend", context_settings=CONTEXT, epilog=_EXAMPLES)
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
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
    help="Read peaks from Prometheus; by default they come from the exporters, since each container started.",
)
@click.option(
    "--window",
    type=DURATION,
    default="7d",
    show_default=True,
    metavar="TIME",
    help="How far back to read peaks from Prometheus.",
)
@cluster_option
@click.option(
    "--apply", "applies", is_flag=True, help="Change the workloads, after showing the changes and asking."
)
@click.option("--yes", is_flag=True, help="Apply the changes without asking.")
@document_option
@with_namespace
def recommend(
    *,
    source: Any,
    workloads: tuple[str, ...],
    namespace: str | None,
    margin: int,
    output: str | None,
    **more: Any,
) -> int:
    """Suggest GPU memory requests of workloads, such as deployment/web, from peaks and refused allocations.

    A suggestion is the peak plus a margin in whole units of the node; after refused allocations, the limit
    that admits them plus the margin. It is at most the GPU. Without a peak, "now only" or "no data" is shown
    instead. Changes nothing without --apply.
    """
    from gpushare.cli.lib.screen import Screen, serialized
    from gpushare.cli.recommend import render
    from gpushare.cli.recommend.collect import Peaks, collect
    from gpushare.cli.recommend.sizing import Basis, recommendations, selected

    flags = _Flags(**more)
    _check_usage(flags, output)
    prometheus, window = flags.prometheus, flags.window
    screen = Screen()
    peaks = Peaks(prometheus, window.seconds, flags.cluster)
    observed = source.ask(lambda client: collect(client, namespace, peaks, screen.report))
    basis = Basis.WINDOW if prometheus else Basis.SINCE_START
    found = selected(recommendations(observed, margin, basis), workloads)
    if output:
        searched_s = window.seconds if prometheus else None
        screen.show(serialized(render.recommendations_document(found, margin, searched_s), output))
        return 0
    screen.show_table(render.table(found, window.text), namespace)
    if found:
        click.echo(render.rule(margin), nl=False)
    return _applied(source, found, yes=flags.yes) if flags.applies else 0


def _check_usage(flags: _Flags, output: str | None) -> None:
    source_of = click.get_current_context().get_parameter_source
    if not flags.prometheus and (flags.cluster or source_of("window") is not ParameterSource.DEFAULT):
        raise click.UsageError("--window and --cluster select series in Prometheus; they need --prometheus")
    if (flags.applies and output) or (flags.yes and not flags.applies):
        raise click.UsageError("--yes needs --apply, and --apply shows a table: leave out --output")


def _applied(source: Any, found: "Sequence[Recommendation]", *, yes: bool) -> int:
    """Change the workloads; return the exit code."""
    from gpushare.cli.recommend.apply import apply
    from gpushare.cli.recommend.changes import changes

    def confirmed(question: str) -> bool:
        return yes or click.confirm(question, err=True)

    show, report = partial(click.echo, nl=False), partial(click.echo, err=True)
    return 0 if apply(source, changes(found), show=show, report=report, confirmed=confirmed) else 1
