"""*GPU Cluster*: problems first, then capacity, nodes and use of the whole cluster."""

from typing import Final

from gpushare.monitoring import catalogue as names
from gpushare.monitoring import rules
from gpushare.monitoring.dashboards.parts import (
    ALL,
    CLUSTER_MATCHER,
    CLUSTER_UID,
    CLUSTERS,
    LINES,
    NODE,
    NODE_UID,
    POD,
    ROWS,
    SAME_CARD,
    UNITS,
    Series,
    count,
    highest,
    highest_of,
    number,
    or_zero,
    summed,
    total,
)
from gpushare.monitoring.panels import (
    EXACTLY_ONE,
    FULL_IS_FINE,
    FULL_IS_TIGHT,
    NONE_IS_BETTER,
    NONE_IS_GOOD,
    Dashboard,
    DashboardLink,
    Panel,
    PanelRow,
    Steps,
    TableColumn,
    TablePanel,
)

_BOUNDS: Final = ("0", "0.25", "0.5", "0.75", "0.9", "1", "+Inf")
_SAME_NODE: Final = "cluster, node"


def _by_node(series: Series) -> str:
    return f"max by ({_SAME_NODE}) ({series}{ALL})"


def _spread(ratio: str) -> str:
    """The number of GPUs up to each bound of a ratio, as a histogram counts them."""
    return " or ".join(
        f'label_replace(sum({ratio} <= bool {bound}), "le", "{bound}", "", "")' for bound in _BOUNDS
    )


_RANK: Final = f"{_by_node(names.CARDS_UNSCHEDULABLE)} + {_by_node(rules.NODE_PACKING)}"
"""A node with an unschedulable GPU is before every node without."""
_FIRST: Final = f"topk({ROWS}, ({_RANK} or {_by_node(rules.NODE_MEMORY)} * 0))"


def _column(title: str, expr: str, unit: str, steps: Steps | None = None) -> TableColumn:
    return TableColumn(title, f"{expr} and on ({_SAME_NODE}) {_FIRST}", unit, steps)


_PROBLEMS: Final = PanelRow(
    "Problems",
    (
        count(
            "Over-committed GPUs",
            "GPUs with more units reserved than they have. Must be 0. Such a GPU takes no pods; the runbook "
            "GpuShareOvercommitted says what to do.",
            total(names.CARDS_OVERCOMMITTED),
            NONE_IS_GOOD,
        ),
        count(
            "Leaders of the extender",
            "Replicas of the extender that bind pods. Must be 1 in each cluster; shown is the lowest number. "
            "With 0, no pod gets a GPU. See the dashboard GPU Scheduler.",
            f"min(sum by (cluster) ({names.EXTENDER_LEADS}{ALL}))",
            EXACTLY_ONE,
        ),
        count(
            "Drivers that do not respond",
            "Nodes whose NVIDIA driver does not answer the node agent. They take no new pods: see the log of "
            "the agent and nvidia-smi on the node.",
            or_zero(f"{names.PLUGIN_NVML_UP}{ALL} == 0"),
            NONE_IS_GOOD,
        ),
        count(
            "Unschedulable GPUs",
            "GPUs that take no pods: unhealthy, cordoned, over-committed, used as a whole GPU, or on a "
            "closed node. The table of nodes shows where; kubectl inspect gpushare shows why.",
            f"sum({_by_node(names.CARDS_UNSCHEDULABLE)})",
            NONE_IS_BETTER,
        ),
        count(
            "Pending pods",
            "Pods that request GPU units and have no node yet. If the number stays, kubectl gpushare explain "
            "says for a pod why, and what helps.",
            total(names.PENDING),
            NONE_IS_BETTER,
        ),
        count(
            "Firing alerts",
            "Alerts of this project that fire now. Each has a runbook.",
            or_zero(f'ALERTS{{{CLUSTER_MATCHER},alertname=~"GpuShare.+",alertstate="firing"}}'),
            NONE_IS_BETTER,
        ),
    ),
)

_CAPACITY: Final = PanelRow(
    "Capacity",
    (
        count("GPUs", "All GPUs that the drivers report.", f"count({names.CARD_INFO}{ALL})"),
        number(
            "Total GPU memory",
            "Memory of all GPUs without the reserve of the driver, in bytes.",
            summed(rules.CLUSTER_MEMORY),
            "bytes",
        ),
        number(
            "Memory allocated / total",
            "The part of all GPU memory that is allocated to containers. Orange from 90 % on: new pods will "
            "have to wait soon. Add GPUs, or find pods that request too much.",
            f"{summed(rules.CLUSTER_ALLOCATED)} / {summed(rules.CLUSTER_MEMORY)}",
            "percentunit",
            FULL_IS_TIGHT,
        ),
        number(
            "Memory used / allocated",
            "The part of the allocated memory that pods use. If it is low, pods request more than they need.",
            f"{summed(rules.CLUSTER_USED)} / ({summed(rules.CLUSTER_ALLOCATED)} > 0)",
            "percentunit",
        ),
        number(
            "Allocated but unused",
            "Memory that is allocated to pods and not used by them, in bytes. No other pod can have it.",
            summed(rules.CLUSTER_WASTED),
            "bytes",
        ),
        count("Free units", f"What pods can still request of all GPUs. {UNITS}", summed(rules.CLUSTER_FREE)),
        count(
            "Most free units on one GPU",
            f"The largest request for one GPU that fits now. {UNITS} A larger pod has to wait, whatever the "
            "sum of the free units is.",
            f"max({rules.CLUSTER_LARGEST_FREE}{ALL})",
        ),
        number(
            "Fragmentation",
            "How much of a whole GPU cannot be requested although as much is free in total, because it is "
            "spread over several GPUs. 0 % is best. If it is high and pods wait, use the placement policy "
            "binpack, or restart small pods.",
            f"max({rules.FRAGMENTATION}{ALL})",
            "percentunit",
        ),
    ),
)

_NODES: Final = PanelRow(
    "Nodes",
    (
        TablePanel(
            "Nodes",
            f"At most {ROWS} nodes: those with unschedulable GPUs, then those with the most allocated "
            "memory. The name links to GPU Node. Over-committed and unschedulable are numbers of GPUs and "
            f"should be 0. {UNITS}",
            (("cluster", "Cluster"), ("node", "Node")),
            (
                _column("GPUs", f"count by ({_SAME_NODE}) ({names.CARD_INFO}{ALL})", "none"),
                _column("Memory", _by_node(rules.NODE_MEMORY), "bytes"),
                _column("Allocated / total", _by_node(rules.NODE_PACKING), "percentunit", FULL_IS_FINE),
                _column("Used / allocated", _by_node(rules.NODE_MEMORY_USE), "percentunit"),
                _column("GPU utilization", _by_node(rules.NODE_COMPUTE), "percentunit"),
                _column("Free units", _by_node(rules.NODE_FREE), "none"),
                _column(
                    "Over-committed",
                    f"sum by ({_SAME_NODE}) ({rules.CARD_FREE}{ALL} < bool 0)",
                    "none",
                    NONE_IS_GOOD,
                ),
                _column("Unschedulable", _by_node(names.CARDS_UNSCHEDULABLE), "none", NONE_IS_BETTER),
            ),
            DashboardLink("Node in GPU Node", NODE_UID, ("node",)),
        ),
    ),
)

_OF_NODES: Final = f"The {LINES} nodes with the highest values in the range."

_USE: Final = PanelRow(
    "Use",
    (
        Panel(
            "GPUs by allocated memory",
            "How many GPUs have how much of their memory allocated: a row is a part of the memory, a darker "
            "cell has more GPUs. Pods are well packed if most GPUs are in the lowest and highest rows. Many "
            "in the middle have free memory that no large pod can get. Above 100 %, they are over-committed.",
            _spread(
                f"max by ({SAME_CARD}) ({rules.CARD_ALLOCATED}{ALL})"
                f" / max by ({SAME_CARD}) ({names.CARD_MEMORY}{ALL})"
            ),
            "percentunit",
            "{{le}}",
            "heat",
        ),
        Panel(
            "GPUs by utilization",
            "How many GPUs are how busy: a row is a part of the time in which a kernel ran, a darker cell "
            "has more GPUs. Many GPUs in the lowest row are idle: see the dashboard GPU Tenants for whose "
            "they are.",
            _spread(f"max by ({SAME_CARD}) ({names.CARD_UTILIZATION}{ALL})"),
            "percentunit",
            "{{le}}",
            "heat",
        ),
        Panel(
            "Unschedulable GPUs by node",
            "Nodes with GPUs that take no pods, over time; the number is that of GPUs. A row that stays "
            f"orange needs a look at the node. {_OF_NODES}",
            f"{_by_node(names.CARDS_UNSCHEDULABLE)}"
            f" and on ({_SAME_NODE}) {highest(f'{names.CARDS_UNSCHEDULABLE}{ALL}')}",
            "none",
            NODE,
            "states",
            NONE_IS_BETTER,
        ),
        Panel(
            "Allocated but unused by node",
            f"Memory that is allocated to pods of a node and not used, in bytes. {_OF_NODES}",
            highest_of(f"{rules.NODE_WASTED}{ALL}"),
            "bytes",
            NODE,
        ),
        Panel(
            "Allocated but unused, top pods",
            f"The {LINES} pods with the most allocated memory that they do not use, in bytes. kubectl "
            "gpushare recommend says how much each needs.",
            highest_of(f"{rules.POD_WASTED}{ALL}"),
            "bytes",
            POD,
        ),
        Panel(
            "GPU utilization by node",
            "The average part of the time in which the GPUs of a node compute. At 100 %, pods wait for each "
            f"other. {_OF_NODES}",
            highest_of(f"{rules.NODE_COMPUTE}{ALL}"),
            "percentunit",
            NODE,
            top=1,
        ),
    ),
)

CLUSTER: Final = Dashboard(
    CLUSTER_UID,
    "GPU Cluster",
    "Problems, capacity and use of all shared GPUs.",
    (CLUSTERS,),
    (_PROBLEMS, _CAPACITY, _NODES, _USE),
)
