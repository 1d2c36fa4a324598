"""``inspect``: its flags. What it needs is imported when it runs."""

from typing import Any, Final

import click

from gpushare.cli.lib.flags import node_options
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl inspect gpushare
  kubectl inspect gpushare -d gpu-1
  kubectl inspect gpushare -l ack.node.gpu.schedule=cgpu -o json"""


@click.command("inspect", context_settings=CONTEXT, epilog=_EXAMPLES)
@click.option("-d", "--details", is_flag=True, help="Show the pods of every node.")
@node_options
def inspect(*, details: bool, **flags: Any) -> None:
    """Show allocated and total GPU memory of all sharing nodes, or of NODE."""
    from gpushare.cli.inspect import render
    from gpushare.cli.lib.node_screen import NodeFlags, show_nodes

    shown = NodeFlags(**flags)
    layout = render.details if details else render.summary
    show_nodes(shown, layout, lambda nodes: [node for node in nodes if node.shared or shown.node])
