"""Grafana dashboards: *GPU APP* by pod, *GPU Node* by GPU, *GPU Cluster* as a whole.

Panels and their queries belong here; the parts of a dashboard are in ``panels``, recording rules are in
``rules``. Every query is of ``$cluster``, which also matches series without that label.
"""

from typing import Final

from gpushare.monitoring import catalogue as names
from gpushare.monitoring import rules
from gpushare.monitoring.panels import (
    EXACTLY_ONE,
    FULL_IS_FINE,
    FULL_IS_TIGHT,
    HOT,
    NEUTRAL,
    NONE_IS_BETTER,
    NONE_IS_GOOD,
    OVER_IS_BAD,
    Dashboard,
    DashboardLink,
    Panel,
    PanelRow,
    Steps,
    TableColumn,
    TablePanel,
    Variable,
)

Series = names.Metric | rules.RecordingRule

_APP_UID: Final = "gpushare-app"
_NODE_UID: Final = "gpushare-node"
_CLUSTER: Final = 'cluster=~"$cluster"'
_CLUSTERS: Final = Variable("cluster", str(names.CARD_INFO))
_ALL: Final = f"{{{_CLUSTER}}}"
_NODES: Final = f'{{{_CLUSTER},node=~"$node"}}'
_PODS: Final = f'{{{_CLUSTER},namespace=~"$namespace",pod=~"$pod"}}'
_POD: Final = "{{namespace}}/{{pod}}"
_CARD: Final = "{{node}} GPU {{card}}"
_NODE: Final = "{{node}}"
_SAME_CARD: Final = "cluster, node, card"


def _percent(title: str, expr: str, legend: str) -> Panel:
    return Panel(title, expr, "percentunit", legend, top=1)


def _shares(metric: names.Metric, selected: str) -> str:
    """The query for the value of each container on each GPU."""
    return f"sum by (cluster, node, namespace, pod, container, card) ({metric}{selected})"


_SHARE: Final = (
    ("namespace", "Namespace"),
    ("pod", "Pod"),
    ("container", "Container"),
    ("node", "Node"),
    ("card", "GPU"),
)
_IN_A_POD: Final = 'pod!=""'


def _containers(title: str, selected: str, link: DashboardLink | None) -> TablePanel:
    """Requested, used and limit of each container."""
    in_pods = f"{selected[:-1]},{_IN_A_POD}}}"
    used, allocated = (_shares(each, in_pods) for each in (names.CONTAINER_USED, names.CONTAINER_ALLOCATED))
    return TablePanel(
        title,
        _SHARE,
        (
            TableColumn("Allocated", allocated, "bytes"),
            TableColumn("Limit", _shares(names.CONTAINER_LIMIT, in_pods), "bytes"),
            TableColumn("Used", used, "bytes"),
            TableColumn("Used / allocated", f"{used} / ({allocated} > 0)", "percentunit", OVER_IS_BAD),
            TableColumn("SM utilization", _shares(names.CONTAINER_UTILIZATION, in_pods), "percentunit"),
        ),
        link,
    )


# --- by pod -------------------------------------------------------------------------------------


def _of_pods_gpu(metric: names.Metric) -> str:
    """Return the query for a GPU's value by each pod on it."""
    return (
        f"max by (cluster, namespace, pod) (0 * {names.CONTAINER_ALLOCATED}{_PODS}"
        f" + on ({_SAME_CARD}) group_left max by ({_SAME_CARD}) ({metric}))"
    )


APP: Final = Dashboard(
    _APP_UID,
    "GPU APP",
    (
        _CLUSTERS,
        Variable("namespace", f"{names.CONTAINER_ALLOCATED}{_ALL}"),
        Variable("pod", f'{names.CONTAINER_ALLOCATED}{{{_CLUSTER},namespace=~"$namespace"}}'),
    ),
    (
        PanelRow("Containers", (_containers("Containers", _PODS, None),)),
        PanelRow(
            "Memory",
            (
                Panel("Memory used", f"{rules.POD_USED}{_PODS}", "bytes", _POD),
                Panel("Memory allocated", f"{rules.POD_ALLOCATED}{_PODS}", "bytes", _POD),
                _percent("Memory used / allocated", f"{rules.POD_MEMORY_USE}{_PODS}", _POD),
                _percent(
                    "Memory allocated / total",
                    f"sum by (cluster, namespace, pod) ({names.CONTAINER_ALLOCATED}{_PODS}"
                    f" / on ({_SAME_CARD}) group_left max by ({_SAME_CARD}) ({names.CARD_MEMORY}))",
                    _POD,
                ),
                Panel("Allocated but unused", f"{rules.POD_WASTED}{_PODS}", "bytes", _POD),
                _percent(
                    "Peak memory / limit",
                    f"sum by (cluster, namespace, pod) ({names.CONTAINER_PEAK}{_PODS})"
                    f" / sum by (cluster, namespace, pod) ({names.CONTAINER_LIMIT}{_PODS})",
                    _POD,
                ),
                Panel(
                    "Refused memory requests",
                    f"sum by (cluster, namespace, pod)"
                    f" (increase({names.CONTAINER_REFUSALS}{_PODS}[$__rate_interval]))",
                    "none",
                    _POD,
                ),
            ),
        ),
        PanelRow(
            "GPU",
            (
                Panel("SM utilization", f"{rules.POD_COMPUTE}{_PODS}", "percentunit", _POD),
                Panel("GPU temperature", _of_pods_gpu(names.CARD_TEMPERATURE), "celsius", _POD, steps=HOT),
                Panel("GPU power", _of_pods_gpu(names.CARD_POWER), "watt", _POD),
            ),
        ),
    ),
)

# --- by GPU -------------------------------------------------------------------------------------


def _by_gpu(
    title: str,
    metric: Series,
    unit: str,
    steps: Steps = NEUTRAL,
    *,
    top: float | None = None,
) -> Panel:
    return Panel(title, f"{metric}{_NODES}", unit, _CARD, steps=steps, top=top)


def _cards(series: Series) -> str:
    """The query for the value of each GPU."""
    return f"max by ({_SAME_CARD}) ({series}{_NODES})"


_PACKING: Final = f"{_cards(rules.CARD_ALLOCATED)} / {_cards(names.CARD_MEMORY)}"

NODE: Final = Dashboard(
    _NODE_UID,
    "GPU Node",
    (_CLUSTERS, Variable("node", f"{names.CARD_INFO}{_ALL}")),
    (
        PanelRow(
            "GPUs",
            (
                TablePanel(
                    "GPUs",
                    (("node", "Node"), ("card", "GPU")),
                    (
                        TableColumn("Memory", _cards(names.CARD_MEMORY), "bytes"),
                        TableColumn("Allocated", _cards(rules.CARD_ALLOCATED), "bytes"),
                        TableColumn("Used", _cards(names.CARD_USED), "bytes"),
                        TableColumn("Allocated / total", _PACKING, "percentunit", FULL_IS_FINE),
                        TableColumn(
                            "Free units", _cards(rules.CARD_FREE), "none", ((-1, "red"), (0, "green"))
                        ),
                        TableColumn("GPU utilization", _cards(names.CARD_UTILIZATION), "percentunit"),
                        TableColumn("Temperature", _cards(names.CARD_TEMPERATURE), "celsius", HOT),
                        TableColumn("Power", _cards(names.CARD_POWER), "watt"),
                    ),
                ),
                Panel(
                    "Memory allocated / total", _PACKING, "percentunit", _CARD, "bars", FULL_IS_FINE, top=1
                ),
            ),
        ),
        PanelRow(
            "Containers",
            (
                _containers(
                    "Containers on these nodes",
                    _NODES,
                    DashboardLink("Pod in GPU APP", _APP_UID, ("namespace", "pod")),
                ),
            ),
        ),
        PanelRow(
            "Memory",
            (
                _by_gpu("Memory used", names.CARD_USED, "bytes"),
                _by_gpu("Memory allocated", rules.CARD_ALLOCATED, "bytes"),
                _by_gpu("Allocatable memory", names.CARD_MEMORY, "bytes"),
                _by_gpu("Free units", rules.CARD_FREE, "none"),
            ),
        ),
        PanelRow(
            "Utilization",
            (
                _by_gpu("GPU utilization", names.CARD_UTILIZATION, "percentunit", top=1),
                _by_gpu("Memory bandwidth utilization", names.CARD_MEMORY_UTILIZATION, "percentunit", top=1),
                _by_gpu("PCIe receive throughput", names.CARD_PCIE_RECEIVED, "Bps"),
                _by_gpu("PCIe transmit throughput", names.CARD_PCIE_SENT, "Bps"),
            ),
        ),
        PanelRow(
            "Hardware",
            (
                _by_gpu("Temperature", names.CARD_TEMPERATURE, "celsius", HOT),
                _by_gpu("Power", names.CARD_POWER, "watt"),
                _by_gpu("SM clock", names.CARD_SM_CLOCK, "hertz"),
                _by_gpu("Memory clock", names.CARD_MEMORY_CLOCK, "hertz"),
                Panel(
                    "ECC errors",
                    f"increase({names.CARD_ECC}{_NODES}[$__rate_interval])",
                    "none",
                    f"{_CARD} {{{{kind}}}}",
                ),
                Panel("XID errors", f"{names.CARD_XIDS}{_NODES}", "none", f"{_CARD} XID {{{{xid}}}}"),
            ),
        ),
    ),
)

# --- cluster ------------------------------------------------------------------------------------


def _number(title: str, expr: str, unit: str, steps: Steps = NEUTRAL) -> Panel:
    return Panel(title, expr, unit, kind="number", steps=steps)


def _count(title: str, expr: str, steps: Steps = NEUTRAL) -> Panel:
    return _number(title, expr, "none", steps)


def _total(metric: names.Metric) -> str:
    """The sum over clusters of a number that every replica serves."""
    return f"sum(max by (cluster) ({metric}{_ALL}))"


def _sum(rule: rules.RecordingRule) -> str:
    return f"sum({rule}{_ALL})"


def _by_node(series: Series) -> str:
    return f"max by (cluster, node) ({series}{_ALL})"


def _overcommitted() -> str:
    """The number of over-committed GPUs of each node."""
    return f"sum by (cluster, node) ({rules.CARD_FREE}{_ALL} < bool 0)"


def _or_zero(expr: str) -> str:
    """The number of series of a query, 0 without one."""
    return f"count({expr}) or vector(0)"


CLUSTER: Final = Dashboard(
    "gpushare-cluster",
    "GPU Cluster",
    (_CLUSTERS,),
    (
        PanelRow(
            "Problems",
            (
                _count("Over-committed GPUs", _total(names.CARDS_OVERCOMMITTED), NONE_IS_GOOD),
                _count(
                    "Leaders of the extender",
                    f"min(sum by (cluster) ({names.EXTENDER_LEADS}{_ALL}))",
                    EXACTLY_ONE,
                ),
                _count(
                    "Drivers that do not respond",
                    _or_zero(f"{names.PLUGIN_NVML_UP}{_ALL} == 0"),
                    NONE_IS_GOOD,
                ),
                _count("Unschedulable GPUs", f"sum({_by_node(names.CARDS_UNSCHEDULABLE)})", NONE_IS_BETTER),
                _count("Pending pods", _total(names.PENDING), NONE_IS_BETTER),
                _count(
                    "Firing alerts",
                    _or_zero(f'ALERTS{{{_CLUSTER},alertname=~"GpuShare.+",alertstate="firing"}}'),
                    NONE_IS_BETTER,
                ),
            ),
        ),
        PanelRow(
            "Capacity",
            (
                _count("GPUs", f"count({names.CARD_INFO}{_ALL})"),
                _number("Total GPU memory", _sum(rules.CLUSTER_MEMORY), "bytes"),
                _number(
                    "Memory allocated / total",
                    f"{_sum(rules.CLUSTER_ALLOCATED)} / {_sum(rules.CLUSTER_MEMORY)}",
                    "percentunit",
                    FULL_IS_TIGHT,
                ),
                _number(
                    "Memory used / allocated",
                    f"{_sum(rules.CLUSTER_USED)} / ({_sum(rules.CLUSTER_ALLOCATED)} > 0)",
                    "percentunit",
                ),
                _number("Allocated but unused", _sum(rules.CLUSTER_WASTED), "bytes"),
                _count("Free units", _sum(rules.CLUSTER_FREE)),
                _count("Most free units on one GPU", f"max({rules.CLUSTER_LARGEST_FREE}{_ALL})"),
                _number("Fragmentation", f"max({rules.FRAGMENTATION}{_ALL})", "percentunit"),
            ),
        ),
        PanelRow(
            "Nodes",
            (
                TablePanel(
                    "Nodes",
                    (("cluster", "Cluster"), ("node", "Node")),
                    (
                        TableColumn("GPUs", f"count by (cluster, node) ({names.CARD_INFO}{_ALL})", "none"),
                        TableColumn("Memory", _by_node(rules.NODE_MEMORY), "bytes"),
                        TableColumn(
                            "Allocated / total", _by_node(rules.NODE_PACKING), "percentunit", FULL_IS_FINE
                        ),
                        TableColumn("Used / allocated", _by_node(rules.NODE_MEMORY_USE), "percentunit"),
                        TableColumn("GPU utilization", _by_node(rules.NODE_COMPUTE), "percentunit"),
                        TableColumn("Free units", _by_node(rules.NODE_FREE), "none"),
                        TableColumn("Over-committed", _overcommitted(), "none", NONE_IS_GOOD),
                        TableColumn(
                            "Unschedulable", _by_node(names.CARDS_UNSCHEDULABLE), "none", NONE_IS_BETTER
                        ),
                    ),
                    DashboardLink("Node in GPU Node", _NODE_UID, ("node",)),
                ),
            ),
        ),
        PanelRow(
            "Use",
            (
                _percent("Memory allocated / total by node", f"{rules.NODE_PACKING}{_ALL}", _NODE),
                _percent("GPU utilization by node", f"{rules.NODE_COMPUTE}{_ALL}", _NODE),
                Panel("Allocated but unused by node", f"{rules.NODE_WASTED}{_ALL}", "bytes", _NODE),
                Panel(
                    "Allocated but unused, top 10 pods",
                    f"topk(10, {rules.POD_WASTED}{_ALL})",
                    "bytes",
                    _POD,
                ),
                Panel("Free units by node", f"{rules.NODE_FREE}{_ALL}", "none", _NODE),
                Panel("Unschedulable GPUs by node", _by_node(names.CARDS_UNSCHEDULABLE), "none", _NODE),
            ),
        ),
        PanelRow(
            "Scheduling",
            (
                Panel(
                    "Pods that wait",
                    f"max by (cluster) ({names.PENDING}{_ALL})",
                    "none",
                    "pending {{cluster}}",
                ),
                Panel(
                    "Reservations by state",
                    f"max by (cluster, state) ({names.RESERVATIONS}{_ALL})",
                    "none",
                    "{{state}}",
                ),
                Panel(
                    "Binds per second",
                    f"sum by (reason) (rate({names.EXTENDER_BINDS}{_ALL}[$__rate_interval]))",
                    "ops",
                    "{{reason}}",
                ),
                Panel(
                    "Longest delay of the extender's event loop",
                    "histogram_quantile(1, sum by (cluster, le) "
                    f"(rate({names.EXTENDER_LOOP_DELAY}_bucket{_ALL}[$__rate_interval])))",
                    "s",
                    "longest {{cluster}}",
                ),
            ),
        ),
    ),
)

PAGES: Final = (APP, NODE, CLUSTER)
