"""Selections, queries and panels that several dashboards share."""

from typing import Final

from gpushare.monitoring import catalogue as names
from gpushare.monitoring import rules
from gpushare.monitoring.panels import (
    NEUTRAL,
    OVER_IS_BAD,
    DashboardLink,
    Panel,
    Steps,
    TableColumn,
    TablePanel,
    Variable,
)

Series = names.Metric | rules.RecordingRule

APP_UID: Final = "gpushare-app"
NODE_UID: Final = "gpushare-node"
CLUSTER_UID: Final = "gpushare-cluster"
TENANTS_UID: Final = "gpushare-tenants"
SCHEDULER_UID: Final = "gpushare-scheduler"

CLUSTER_MATCHER: Final = 'cluster=~"$cluster"'
CLUSTERS: Final = Variable("cluster", str(names.CARD_INFO))
ALL: Final = f"{{{CLUSTER_MATCHER}}}"
POD: Final = "{{namespace}}/{{pod}}"
CARD: Final = "{{node}} GPU {{card}}"
NODE: Final = "{{node}}"
SAME_CARD: Final = "cluster, node, card"
LINES: Final = 20
"""Most lines of a graph that has one for each pod or node."""
ROWS: Final = 50
"""Most rows of a table that has one for each container, node or namespace."""
UNITS: Final = "A unit is one GiB of GPU memory, or one MiB if the cluster is set up so."

_SHARE: Final = (
    ("namespace", "Namespace"),
    ("pod", "Pod"),
    ("container", "Container"),
    ("node", "Node"),
    ("card", "GPU"),
)
_IN_A_POD: Final = 'pod!=""'
_SAME_SHARE: Final = "cluster, node, namespace, pod, container, card"


def highest(selected: str, *, most: int = LINES) -> str:
    """The series that were highest in the range. ``topk`` alone chooses anew at every step of a graph.

    It reads the steps of the graph: each sample of a long range would be too much for one query.
    """
    return f"topk({most}, max_over_time({selected}[$__range:$__interval] @ end()))"


def highest_of(selected: str, *, most: int = LINES) -> str:
    """The query for these series themselves."""
    return f"{selected} and {highest(selected, most=most)}"


def percent(title: str, description: str, expr: str, legend: str) -> Panel:
    """A graph of ratios."""
    return Panel(title, description, expr, "percentunit", legend, top=1)


def number(title: str, description: str, expr: str, unit: str, steps: Steps = NEUTRAL) -> Panel:
    """One number."""
    return Panel(title, description, expr, unit, kind="number", steps=steps)


def count(title: str, description: str, expr: str, steps: Steps = NEUTRAL) -> Panel:
    """One number without a unit."""
    return number(title, description, expr, "none", steps)


def total(metric: names.Metric) -> str:
    """The sum over clusters of a number that every replica serves."""
    return f"sum(max by (cluster) ({metric}{ALL}))"


def summed(rule: rules.RecordingRule) -> str:
    """The sum over clusters of a recorded number."""
    return f"sum({rule}{ALL})"


def or_zero(expr: str) -> str:
    """The number of series of a query, 0 without one."""
    return f"count({expr}) or vector(0)"


def containers(title: str, description: str, selected: str, link: DashboardLink | None) -> TablePanel:
    """Allocated, limited and used memory of the containers with the most of it."""
    in_pods = f"{selected[:-1]},{_IN_A_POD}}}"
    used, allocated = (_shares(each, in_pods) for each in (names.CONTAINER_USED, names.CONTAINER_ALLOCATED))
    largest = f"topk({ROWS}, ({allocated} or {used}))"

    def column(name: str, expr: str, unit: str = "bytes", steps: Steps | None = None) -> TableColumn:
        return TableColumn(name, f"{expr} and on ({_SAME_SHARE}) {largest}", unit, steps)

    return TablePanel(
        title,
        f"{description} Of more than {ROWS} containers, those with the most allocated memory.",
        _SHARE,
        (
            column("Allocated", allocated),
            column("Limit", _shares(names.CONTAINER_LIMIT, in_pods)),
            column("Used", used),
            column("Used / allocated", f"{used} / ({allocated} > 0)", "percentunit", OVER_IS_BAD),
            column("SM utilization", _shares(names.CONTAINER_UTILIZATION, in_pods), "percentunit"),
        ),
        link,
    )


def _shares(metric: names.Metric, selected: str) -> str:
    """The query for the value of each container on each GPU."""
    return f"sum by ({_SAME_SHARE}) ({metric}{selected})"
