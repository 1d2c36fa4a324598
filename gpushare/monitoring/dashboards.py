"""Grafana dashboards: *GPU APP* by pod, *GPU Node* by GPU, *GPU Cluster* as a whole.

Panels, their queries and their conversion to JSON belong here, recording rules in ``rules``. Grafana's SDK is
a build dependency: no daemon imports this module.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from grafana_foundation_sdk.builders import dashboard as sdk
from grafana_foundation_sdk.builders import prometheus, stat, timeseries
from grafana_foundation_sdk.builders.common import VizLegendOptions
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import DataSourceRef, LegendDisplayMode
from grafana_foundation_sdk.models.dashboard import VariableRefresh, VariableSort

from gpushare.monitoring import catalogue as names
from gpushare.monitoring import rules

Kind = Literal["graph", "number"]
_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
_LEGEND: Final = VizLegendOptions().show_legend(show_legend=True).display_mode(LegendDisplayMode.LIST)
_SIZES: Final = {"graph": (8, 12), "number": (4, 6)}
"""Height and width of a panel; a dashboard is 24 wide."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One query. ``unit`` is a Grafana unit, ``legend`` a Grafana template for the names of the lines."""

    title: str
    expr: str
    unit: str
    legend: str = ""
    kind: Kind = "graph"


@dataclass(frozen=True, slots=True)
class Choice:
    """A template variable: the values of the label ``name`` in ``series``."""

    name: str
    series: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard; ``uid`` identifies it in Grafana."""

    uid: str
    title: str
    choices: Sequence[Choice]
    panels: Sequence[Panel]


# --- by pod -------------------------------------------------------------------------------------
_PODS: Final = '{namespace=~"$namespace",pod=~"$pod"}'
_POD: Final = "{{namespace}}/{{pod}}"


def _of_pods_gpu(metric: names.Metric) -> str:
    """Return the query for a GPU's value by each pod on it."""
    return (
        f"max by (namespace, pod) (0 * {names.CONTAINER_ALLOCATED}{_PODS}"
        f" + on (node, card) group_left max by (node, card) ({metric}))"
    )


APP: Final = Dashboard(
    "gpushare-app",
    "GPU APP",
    (
        Choice("namespace", str(names.CONTAINER_ALLOCATED)),
        Choice("pod", f'{names.CONTAINER_ALLOCATED}{{namespace=~"$namespace"}}'),
    ),
    (
        Panel("Memory used", f"{rules.POD_USED}{_PODS}", "bytes", _POD),
        Panel("Memory allocated", f"{rules.POD_ALLOCATED}{_PODS}", "bytes", _POD),
        Panel("Memory used / allocated", f"{rules.POD_MEMORY_USE}{_PODS}", "percentunit", _POD),
        Panel(
            "Memory allocated / total",
            f"sum by (namespace, pod) ({names.CONTAINER_ALLOCATED}{_PODS}"
            f" / on (node, card) group_left max by (node, card) ({names.CARD_MEMORY}))",
            "percentunit",
            _POD,
        ),
        Panel("SM utilization", f"{rules.POD_COMPUTE}{_PODS}", "percentunit", _POD),
        Panel("Allocated but unused", f"{rules.POD_WASTED}{_PODS}", "bytes", _POD),
        Panel(
            "Peak memory / limit",
            f"sum by (namespace, pod) ({names.CONTAINER_PEAK}{_PODS})"
            f" / sum by (namespace, pod) ({names.CONTAINER_LIMIT}{_PODS})",
            "percentunit",
            _POD,
        ),
        Panel(
            "Refused memory requests",
            f"sum by (namespace, pod) (increase({names.CONTAINER_REFUSALS}{_PODS}[$__rate_interval]))",
            "none",
            _POD,
        ),
        Panel("GPU temperature", _of_pods_gpu(names.CARD_TEMPERATURE), "celsius", _POD),
        Panel("GPU power", _of_pods_gpu(names.CARD_POWER), "watt", _POD),
    ),
)

# --- by GPU -------------------------------------------------------------------------------------
_NODES: Final = '{node=~"$node"}'
_CARD: Final = "{{node}} GPU {{card}}"


def _by_gpu(title: str, metric: names.Metric | rules.Rule, unit: str) -> Panel:
    return Panel(title, f"{metric}{_NODES}", unit, _CARD)


NODE: Final = Dashboard(
    "gpushare-node",
    "GPU Node",
    (Choice("node", str(names.CARD_INFO)),),
    (
        _by_gpu("Memory used", names.CARD_USED, "bytes"),
        _by_gpu("Memory allocated", rules.CARD_ALLOCATED, "bytes"),
        _by_gpu("Allocatable memory", names.CARD_MEMORY, "bytes"),
        _by_gpu("Free units", rules.CARD_FREE, "none"),
        _by_gpu("GPU utilization", names.CARD_UTILIZATION, "percentunit"),
        _by_gpu("Memory bandwidth utilization", names.CARD_MEMORY_UTILIZATION, "percentunit"),
        _by_gpu("Temperature", names.CARD_TEMPERATURE, "celsius"),
        _by_gpu("Power", names.CARD_POWER, "watt"),
        _by_gpu("SM clock", names.CARD_SM_CLOCK, "hertz"),
        _by_gpu("Memory clock", names.CARD_MEMORY_CLOCK, "hertz"),
        _by_gpu("PCIe receive throughput", names.CARD_PCIE_RECEIVED, "Bps"),
        _by_gpu("PCIe transmit throughput", names.CARD_PCIE_SENT, "Bps"),
        Panel(
            "ECC errors",
            f"increase({names.CARD_ECC}{_NODES}[$__rate_interval])",
            "none",
            f"{_CARD} {{{{kind}}}}",
        ),
        Panel("XID errors", f"{names.CARD_XIDS}{_NODES}", "none", f"{_CARD} XID {{{{xid}}}}"),
    ),
)

# --- cluster ------------------------------------------------------------------------------------
_NODE: Final = "{{node}}"


def _number(title: str, expr: str | rules.Rule, unit: str) -> Panel:
    return Panel(title, str(expr), unit, kind="number")


CLUSTER: Final = Dashboard(
    "gpushare-cluster",
    "GPU Cluster",
    (),
    (
        _number("Total GPU memory", rules.CLUSTER_MEMORY, "bytes"),
        _number("Memory allocated / total", rules.CLUSTER_PACKING, "percentunit"),
        _number("Memory used / allocated", rules.CLUSTER_MEMORY_USE, "percentunit"),
        _number("Allocated but unused", rules.CLUSTER_WASTED, "bytes"),
        _number("Free units", rules.CLUSTER_FREE, "none"),
        _number("Most free units on one GPU", rules.CLUSTER_LARGEST_FREE, "none"),
        _number("Fragmentation", rules.FRAGMENTATION, "percentunit"),
        _number("Over-committed GPUs", f"max({names.CARDS_OVERCOMMITTED})", "none"),
        Panel("Memory allocated / total by node", str(rules.NODE_PACKING), "percentunit", _NODE),
        Panel("GPU utilization by node", str(rules.NODE_COMPUTE), "percentunit", _NODE),
        Panel("Allocated but unused by node", str(rules.NODE_WASTED), "bytes", _NODE),
        Panel("Allocated but unused, top 10 pods", f"topk(10, {rules.POD_WASTED})", "bytes", _POD),
        Panel("Free units by node", str(rules.NODE_FREE), "none", _NODE),
        Panel("Unschedulable GPUs", f"max by (node) ({names.CARDS_CLOSED})", "none", _NODE),
        Panel("Pending pods", f"max({names.PENDING})", "none", "pending"),
        Panel(
            "Reservations by state",
            f"max by (state) ({names.RESERVATIONS})",
            "none",
            "{{state}}",
        ),
        Panel(
            "Binds per second",
            f"sum by (reason) (rate({names.EXTENDER_BINDS}[$__rate_interval]))",
            "ops",
            "{{reason}}",
        ),
        Panel(
            "Longest delay of the extender's event loop",
            "histogram_quantile(1, sum by (le) "
            f"(rate({names.EXTENDER_LOOP_DELAY}_bucket[$__rate_interval])))",
            "s",
        ),
    ),
)

PAGES: Final = (APP, NODE, CLUSTER)


def as_json(page: Dashboard) -> str:
    """Return the dashboard as JSON for import into Grafana."""
    board = sdk.Dashboard(page.title).uid(page.uid).tags(["gpushare"])
    board.time("now-1h", "now").refresh("30s").timezone("browser").editable()
    for variable in _variables(page.choices):
        board.with_variable(variable)
    for panel in page.panels:
        board.with_panel(_panel(panel))
    return JSONEncoder(sort_keys=True, indent=1, ensure_ascii=False).encode(board.build()) + "\n"


def _variables(choices: Iterable[Choice]) -> Iterable[sdk.DatasourceVariable | sdk.QueryVariable]:
    yield sdk.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    for choice in choices:
        query = f"label_values({choice.series}, {choice.name})"
        variable = sdk.QueryVariable(choice.name).query(query).datasource(_SOURCE)
        variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
        yield variable.multi(multi=True).include_all(include_all=True).all_value(".*")


def _panel(panel: Panel) -> timeseries.Panel | stat.Panel:
    made = timeseries.Panel().legend(_LEGEND) if panel.kind == "graph" else stat.Panel()
    height, width = _SIZES[panel.kind]
    query = prometheus.Dataquery().expr(panel.expr).legend_format(panel.legend).ref_id("A")
    made.title(panel.title).unit(panel.unit).datasource(_SOURCE).height(height).span(width)
    made.with_target(query.datasource(_SOURCE))
    return made
