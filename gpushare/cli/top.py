"""``kubectl gpushare top node``: the four views of ``arena top node``."""

from typing import Any

import click

from gpushare.cli.lazy import CONTEXT
from gpushare.cli.options import Flags, display_options


@click.group("top", context_settings=CONTEXT)
def command() -> None:
    """Show cards by node, as arena top does."""


@command.command("node", context_settings=CONTEXT)
@click.option("-s", "--gpushare", is_flag=True, help="Show the memory of shared cards.")
@click.option("-d", "--details", is_flag=True, help="Show the pods of every node.")
@display_options
def node(*, gpushare: bool, details: bool, **flags: Any) -> None:
    """Show the cards of all nodes, or of NODE."""
    from gpushare.cli import display  # noqa: PLC0415 - slow to load, and --help does without

    display.top_node(Flags(**flags), gpushare=gpushare, details=details)
