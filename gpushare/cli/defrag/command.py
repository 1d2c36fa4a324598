"""``defrag``: its flags. What it needs is imported when it runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from gpushare.cli.lib.flag_types import DURATION, Duration
from gpushare.cli.lib.flags import document_option, with_source
from gpushare.runtime.program import CONTEXT

if TYPE_CHECKING:
    from gpushare.cli.defrag.plan import Help

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare defrag
  kubectl gpushare defrag -o json | jq '.items[].steps'
  kubectl gpushare defrag --apply"""


@click.command("defrag", context_settings=CONTEXT, epilog=_EXAMPLES)
@click.option("--plan", is_flag=True, help="Only show what would be done; the default.")
@click.option("--apply", "applies", is_flag=True, help="Do it, after showing the plan and asking.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option(
    "--timeout",
    type=DURATION,
    default="5m",
    show_default=True,
    metavar="TIME",
    help="How long to wait until the pods of a step have a node again.",
)
@document_option
@with_source
def defrag(
    *, source: Any, plan: bool, applies: bool, yes: bool, timeout: Duration, output: str | None
) -> int:
    """Make waiting pods fit on a GPU, by moving pods that fit elsewhere.

    Pods are moved by an eviction: only pods with a controller, without volumes, and not those of Jobs or with
    the annotation gpushare.io/safe-to-evict: "false". If no moves help, pods of lower priority are evicted,
    which may then wait. Disruption budgets are respected. Changes nothing without --apply.
    """
    from gpushare.cli.defrag import render
    from gpushare.cli.defrag.collect import collect
    from gpushare.cli.defrag.plan import planned
    from gpushare.cli.lib.screen import Screen, serialized

    if (plan and applies) or (yes and not applies) or (applies and output):
        raise click.UsageError("--apply excludes --plan and --output, and --yes needs --apply")
    screen, notes = Screen(), list[str]()
    helped = planned(source.ask(lambda client: collect(client, notes)))
    if output:
        screen.show(serialized(render.document(helped), output))
        return 0
    rows = render.table(helped)
    if rows.rows:
        screen.show_table(rows)
    else:
        screen.report("No pod can be helped by an eviction." if helped else "No pod waits for a GPU.")
    screen.warn([*notes, *render.left(helped)])
    return _applied(source, helped, timeout.seconds, yes=yes) if applies and rows.rows else 0


def _applied(source: Any, helped: "Sequence[Help]", deadline_s: float, *, yes: bool) -> int:
    """Carry out the plan; return the exit code."""
    from gpushare.cli.defrag.apply import Run

    count = sum(len(each.steps) for each in helped)
    if not yes and not click.confirm(f"Evict {count} pod{'s' if count > 1 else ''}?", err=True):
        return 1
    source.ask(lambda client: Run(client, deadline_s=deadline_s, show=click.echo).carry_out(helped))
    return 0
