"""``inspect``, ``top`` and ``limits``: flags and arguments of the commands that show the cluster.

Flags of several commands are public here. They have the names that kubectl uses. The work is in ``display``,
which a command imports when it runs: the API client is slow to load, and ``--help`` does not need it.
"""

from typing import Any, Final

import click

from gpushare.cli import complete as completion
from gpushare.cli.lib.flag_types import NamespaceType, NodeType, PodType
from gpushare.runtime.flags import with_options
from gpushare.runtime.program import CONTEXT

_METRIC: Final = click.option("--metric", metavar="NAME", help="Show every series of this metric.")
_POD: Final = click.argument(
    "pod", type=PodType(), required=False, metavar="[POD]", shell_complete=completion.pods
)
_NODE: Final = click.option(
    "--node", type=NodeType(), metavar="NODE", shell_complete=completion.nodes, help="Only pods on this node."
)
_INSPECT_EXAMPLES: Final = """\b
Examples:
  kubectl inspect gpushare
  kubectl inspect gpushare -d gpu-1
  kubectl inspect gpushare -l ack.node.gpu.schedule=cgpu -o json"""
_TOP_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare top node
  kubectl gpushare top pod -n team-a"""
_TOP_NODE_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare top node -s -d
  kubectl gpushare top node gpu-1 --use --watch
  kubectl gpushare top node --metric gpushare_card_temperature_celsius"""
_TOP_POD_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare top pod -n team-a
  kubectl gpushare top pod -A --node gpu-1
  kubectl gpushare top pod trainer --metric DCGM_CUSTOM_PROCESS_SM_UTIL"""
_LIMITS_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare limits -A
  kubectl gpushare limits trainer -n team-a -o wide"""
cluster_option: Final = click.option(
    "--cluster", metavar="NAME", help="Label cluster of the series, if Prometheus has several clusters."
)
namespace_options = with_options(
    click.option(
        "-n",
        "--namespace",
        type=NamespaceType(),
        metavar="NAME",
        help="Namespace of the pods (default: that of the context).",
    ),
    click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Pods of all namespaces."),
)
document_option = click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Output format.")
connection_options = with_options(
    click.option(
        "--kubeconfig",
        type=click.Path(),
        metavar="FILE",
        help="Kubeconfig to use (default: KUBECONFIG, ~/.kube/config).",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig to use."),
)
_display_options = with_options(
    click.argument(
        "node", type=NodeType(), required=False, metavar="[NODE]", shell_complete=completion.nodes
    ),
    click.option(
        "-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="Output format."
    ),
    click.option("-l", "--selector", default="", metavar="LABELS", help="Only nodes with these labels."),
    click.option("-w", "--watch", is_flag=True, help="Show again after every change, until interrupted."),
    connection_options,
)


@click.command("inspect", context_settings=CONTEXT, epilog=_INSPECT_EXAMPLES)
@click.option("-d", "--details", is_flag=True, help="Show the pods of every node.")
@_display_options
def inspect(*, details: bool, **flags: Any) -> None:
    """Show allocated and total GPU memory of all sharing nodes, or of NODE."""
    from gpushare.cli.lib import screen as display

    display.inspect(display.Flags(**flags), details=details)


@click.group("top", context_settings=CONTEXT, epilog=_TOP_EXAMPLES)
def top() -> None:
    """Show GPUs by node, in the tables of arena top node, or their usage by pod."""


@top.command("node", context_settings=CONTEXT, epilog=_TOP_NODE_EXAMPLES)
@click.option("-s", "--gpushare", is_flag=True, help="Show the memory of shared GPUs.")
@click.option("-d", "--details", is_flag=True, help="Show the pods of every node.")
@click.option("-u", "--use", is_flag=True, help="Show the usage of GPUs, from the exporters.")
@_METRIC
@_display_options
def top_node(*, gpushare: bool, details: bool, use: bool, metric: str | None, **flags: Any) -> None:
    """Show the GPUs of all nodes, or of NODE."""
    from gpushare.cli.lib import screen as display

    common = display.Flags(**flags)
    if use or metric:
        display.gpu_usage(common, metric, views=gpushare or details)
    else:
        display.top_node(common, gpushare=gpushare, details=details)


@top.command("pod", context_settings=CONTEXT, epilog=_TOP_POD_EXAMPLES)
@_POD
@namespace_options
@_NODE
@_METRIC
@document_option
@click.option("-w", "--watch", is_flag=True, help="Show again every few seconds, until interrupted.")
@connection_options
def top_pod(
    *, pod: str | None, namespace: str | None, everywhere: bool, metric: str | None, **flags: Any
) -> None:
    """Show the GPU usage of the pods of a namespace, or of POD."""
    from gpushare.cli.lib import screen as display

    common = display.Flags(**flags)
    display.pod_usage(common, common.usage_filter(pod, namespace, everywhere=everywhere), metric)


@click.command("limits", context_settings=CONTEXT, epilog=_LIMITS_EXAMPLES)
@_POD
@namespace_options
@_NODE
@click.option("-o", "--output", type=click.Choice(["wide", "json", "yaml"]), help="Output format.")
@connection_options
def limits(*, pod: str | None, namespace: str | None, everywhere: bool, **flags: Any) -> None:
    """Show limit, usage, peak and refused allocations of the containers of a namespace, or of POD.

    For a POD without limits it shows the reason.
    """
    from gpushare.cli.lib import screen as display

    common = display.Flags(**flags)
    display.limits(common, common.usage_filter(pod, namespace, everywhere=everywhere))
