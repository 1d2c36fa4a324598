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
    selector_option,
    with_namespace,
)
from gpushare.runtime.kubectl_words import KubectlGroup
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
  kubectl gpushare top pod -A --node gpu-1 --sort-by utilization
  kubectl gpushare top pod -l app=trainer
  kubectl gpushare top pod trainer --metric DCGM_CUSTOM_PROCESS_SM_UTIL"""


_INTERVAL_S: Final = 5.0
_ORDERS: Final = ("name", "used", "allocated", "utilization")


@click.group(
    "top",
    cls=KubectlGroup,
    aliases={"nodes": "node", "pods": "pod", "no": "node", "po": "pod"},
    context_settings=CONTEXT,
    epilog=_EXAMPLES,
)
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
    from gpushare.overview.exporters import collect_series
    from gpushare.overview.usage import UsageFilter

    _show_usage(
        shown.source,
        lambda client, report: collect_series(client, shown.node, report),
        gpu_usage(metric, UsageFilter(shown.node)),
        output=shown.output,
        watch=shown.watch,
    )


@top.command("pod", context_settings=CONTEXT, epilog=_POD_EXAMPLES)
@pod_argument
@namespace_options
@node_option()
@selector_option
@click.option(
    "--sort-by",
    "order",
    type=click.Choice(_ORDERS),
    default=_ORDERS[0],
    show_default=True,
    help="Order of the rows; the largest number first.",
)
@metric_option
@document_option
@click.option("-w", "--watch", is_flag=True, help="Show again every few seconds, until interrupted.")
@with_namespace
def top_pod(
    *,
    source: Any,
    pod: str | None,
    namespace: str | None,
    node: str | None,
    selector: str,
    order: str,
    metric: str | None,
    **shown: Any,
) -> None:
    """Show the GPU usage of the pods of a namespace, or of POD.

    The rights of one namespace are enough for its pods, but not for --metric.
    """
    from gpushare.cli.top.collect import of_pods
    from gpushare.cli.top.usage import ordered, pod_usage
    from gpushare.overview.usage import UsageFilter

    if metric and order != _ORDERS[0]:
        raise click.UsageError("--metric shows one number, which sorts the rows: leave out --sort-by")
    selected = UsageFilter(node, namespace, pod)
    usage_of = pod_usage(metric, selected)
    _show_usage(
        source,
        lambda client, report: of_pods(client, selected, selector, report, of_one_metric=bool(metric)),
        lambda samples: ordered(usage_of(samples), order),
        namespace=namespace,
        is_named=bool(pod),
        **shown,
    )


def _show_usage(
    source: Any,
    read: Any,
    usage_of: Any,
    *,
    output: str | None,
    watch: bool,
    namespace: str | None = None,
    is_named: bool = False,
) -> None:
    """Shows what is read. For a pod that was named, ``read`` has said why there is nothing."""
    from gpushare.cli.lib.screen import serialized, watching_screen
    from gpushare.cli.top.collect import follow
    from gpushare.cli.top.render import table, usage_document

    screen = watching_screen(watch=watch)

    def show(samples: Any) -> None:
        usage = usage_of(samples)
        if output:
            screen.show(serialized(usage_document(usage), output))
        elif usage.rows or not is_named:
            screen.show_table(table(usage), namespace)

    interval_s = _INTERVAL_S if watch else None
    source.ask(lambda client: follow(lambda: read(client, screen.report), show, screen.report, interval_s))
