"""``kubectl gpushare limits``: what isolation holds containers to, and what they use of it."""

from typing import Any

import click

from gpushare.cli import completion
from gpushare.cli.lazy import CONTEXT
from gpushare.cli.options import Flags, connection_options


@click.command("limits", context_settings=CONTEXT)
@click.argument("pod", required=False, metavar="[POD]", shell_complete=completion.pods)
@click.option("-n", "--namespace", metavar="NAME", help="Only pods of this namespace.")
@click.option("--node", metavar="NODE", shell_complete=completion.nodes, help="Only pods of this node.")
@click.option("-o", "--output", type=click.Choice(["wide", "json", "yaml"]), help="Output format.")
@connection_options
def command(*, pod: str | None, namespace: str | None, **flags: Any) -> None:
    """Show limit, use, peak and refusals of the containers of all namespaces, or of POD.

    Of a POD that isolation does not hold it says why.
    """
    from gpushare.cli import display  # noqa: PLC0415 - slow to load, and --help does without

    display.limits(Flags(**flags), pod=pod, namespace=namespace)
