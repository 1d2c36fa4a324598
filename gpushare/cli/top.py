"""``kubectl gpushare top``: the four views of ``arena top node``, and what cards and pods do."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from gpushare.cli import completion
from gpushare.cli.lazy import CONTEXT
from gpushare.cli.options import Flags, connection_options, display_options

F = TypeVar("F", bound=Callable[..., Any])

_METRIC: Final = click.option("--metric", metavar="NAME", help="Show every series of this metric.")


@click.group("top", context_settings=CONTEXT)
def command() -> None:
    """Show cards by node, as arena top does, and what cards and pods do."""


@command.command("node", context_settings=CONTEXT)
@click.option("-s", "--gpushare", is_flag=True, help="Show the memory of shared cards.")
@click.option("-d", "--details", is_flag=True, help="Show the pods of every node.")
@click.option("-u", "--use", is_flag=True, help="Show what the cards do, as the exporters say.")
@_METRIC
@display_options
def node(*, gpushare: bool, details: bool, use: bool, metric: str | None, **flags: Any) -> None:
    """Show the cards of all nodes, or of NODE."""
    from gpushare.cli import display  # noqa: PLC0415 - slow to load, and --help does without

    given = Flags(**flags)
    if use or metric:
        display.use_of_cards(given, metric, views=gpushare or details)
    else:
        display.top_node(given, gpushare=gpushare, details=details)


@command.command("pod", context_settings=CONTEXT)
@click.argument("pod", required=False, metavar="[POD]", shell_complete=completion.pods)
@click.option("-n", "--namespace", metavar="NAME", help="Only pods of this namespace.")
@click.option("--node", metavar="NODE", shell_complete=completion.nodes, help="Only pods of this node.")
@_METRIC
@click.option("-o", "--output", type=click.Choice(["json"]), help="Output format.")
@click.option("-w", "--watch", is_flag=True, help="Show again every few seconds, until interrupted.")
@connection_options
def pod(*, pod: str | None, namespace: str | None, metric: str | None, **flags: Any) -> None:
    """Show what the pods of all namespaces, or POD, do on their cards."""
    from gpushare.cli import display  # noqa: PLC0415 - slow to load, and --help does without

    display.use_of_pods(Flags(**flags), pod=pod, namespace=namespace, metric=metric)
