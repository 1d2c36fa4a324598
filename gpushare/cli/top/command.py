"""``top``: its flags. What it needs is imported when it runs."""

from typing import Any, Final

import click

from gpushare.cli.lib.flags import (
    document_option,
    metric_option,
    namespace_options,
    node_option,
    node_options,
    pod_argument,
    with_namespace,
)
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare top node
  kubectl gpushare top pod -n team-a"""
_NODE_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare top node -s -d
  kubectl gpushare top node gpu-1 --use --watch
  kubectl gpushare top node --metric gpushare_card_temperature_celsius"""
_POD_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare top pod -n team-a
  kubectl gpushare top pod -A --node gpu-1
  kubectl gpushare top pod trainer --metric DCGM_CUSTOM_PROCESS_SM_UTIL"""


_INTERVAL_S: Final = 5.0


@click.group("top", context_settings=CONTEXT, epilog=_EXAMPLES)
def top() -> None:
    """Show GPUs by node, in the tables of arena top node, or their usage by pod."""


@top.command("node", context_settings=CONTEXT, epilog=_NODE_EXAMPLES)
@click.option("-s", "--gpushare", is_flag=True, help="Show the memory of shared GPUs.")
@click.option("-d", "--details", is_flag=True, help="Show the pods of every node.")
@click.option("-u", "--use", is_flag=True, help="Show the usage of GPUs, from the exporters.")
@metric_option
@node_options
def top_node(*, gpushare: bool, details: bool, use: bool, metric: str | None, **flags: Any) -> None:
    """Show the GPUs of all nodes, or of NODE."""
    from gpushare.cli.lib.node_screen import NodeFlags, show_nodes
    from gpushare.cli.top import arena, arena_share

    shown = NodeFlags(**flags)
    if not (use or metric):
        module = arena_share if gpushare else arena
        layout = module.details if details else module.summary
        show_nodes(shown, layout, lambda nodes: arena.chosen(nodes, sharing_only=gpushare))
        return
    if gpushare or details or shown.selector or shown.output not in (None, "json", "yaml"):
        raise click.UsageError("--use and --metric support only NODE, --watch and --output json or yaml")
    from gpushare.cli.top.usage import gpu_usage
    from gpushare.overview.usage import UsageFilter

    selected = UsageFilter(shown.node)
    _show_usage(shown.source, gpu_usage(metric, selected), selected, output=shown.output, watch=shown.watch)


@top.command("pod", context_settings=CONTEXT, epilog=_POD_EXAMPLES)
@pod_argument
@namespace_options
@node_option()
@metric_option
@document_option
@click.option("-w", "--watch", is_flag=True, help="Show again every few seconds, until interrupted.")
@with_namespace
def top_pod(
    *, source: Any, pod: str | None, namespace: str | None, node: str | None, metric: str | None, **flags: Any
) -> None:
    """Show the GPU usage of the pods of a namespace, or of POD."""
    from gpushare.cli.top.usage import pod_usage
    from gpushare.overview.usage import UsageFilter

    selected = UsageFilter(node, namespace, pod)
    _show_usage(source, pod_usage(metric, selected), selected, **flags)


def _show_usage(source: Any, usage_of: Any, selected: Any, *, output: str | None, watch: bool) -> None:
    from gpushare.cli.lib.screen import serialized, watching_screen
    from gpushare.cli.top.collect import collect
    from gpushare.cli.top.render import table, usage_document

    screen = watching_screen(watch=watch)

    def show(samples: Any) -> None:
        usage = usage_of(samples)
        if output:
            screen.show(serialized(usage_document(usage), output))
        else:
            screen.show_table(table(usage), selected.namespace)

    interval_s = _INTERVAL_S if watch else None
    source.ask(lambda client: collect(client, selected.node, show, screen.report, interval_s))
