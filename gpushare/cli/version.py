"""``gpushare version``."""

import click

from gpushare import __version__
from gpushare.cli.lazy import CONTEXT


@click.command("version", context_settings=CONTEXT)
def command() -> None:
    """Print the version."""
    click.echo(f"gpushare {__version__}")
