"""``gpushare inspect``, ``kubectl gpushare inspect`` and the original's ``kubectl inspect gpushare``."""

from typing import Any

import click

from gpushare.cli.lazy import CONTEXT
from gpushare.cli.options import Flags, display_options


@click.command("inspect", context_settings=CONTEXT)
@click.option("-d", "--details", is_flag=True, help="Show the pods of every node.")
@display_options
def command(*, details: bool, **flags: Any) -> None:
    """Show the GPU memory of all sharing nodes, or of NODE, and who holds it."""
    from gpushare.cli import display  # noqa: PLC0415 - slow to load, and --help does without

    display.inspect(Flags(**flags), details=details)
