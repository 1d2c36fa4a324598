"""*GPU Node*: the GPUs of a node, their containers and their hardware."""

from typing import Final

from gpushare.monitoring import catalogue as names
from gpushare.monitoring import rules
from gpushare.monitoring.dashboards.parts import (
    ALL,
    APP_UID,
    CARD,
    CLUSTER_MATCHER,
    CLUSTERS,
    NODE_UID,
    SAME_CARD,
    UNITS,
    Series,
    containers,
)
from gpushare.monitoring.panels import (
    FULL_IS_FINE,
    HOT,
    NEUTRAL,
    NONE_IS_GOOD,
    Dashboard,
    DashboardLink,
    Panel,
    PanelRow,
    Steps,
    TableColumn,
    TablePanel,
    Variable,
)

_NODES: Final = f'{{{CLUSTER_MATCHER},node=~"$node"}}'


def _by_gpu(
    title: str,
    description: str,
    metric: Series,
    unit: str,
    steps: Steps = NEUTRAL,
    *,
    top: float | None = None,
) -> Panel:
    return Panel(title, description, f"{metric}{_NODES}", unit, CARD, steps=steps, top=top)


def _cards(series: Series) -> str:
    """The query for the value of each GPU."""
    return f"max by ({SAME_CARD}) ({series}{_NODES})"


def _new(metric: names.Metric) -> str:
    """The query for what was counted in each interval of the graph."""
    return f"increase({metric}{_NODES}[$__rate_interval])"


def _new_xids() -> str:
    """The same for XID errors: a series begins with its first error, which ``increase`` does not see."""
    seen = f"{names.CARD_XIDS}{_NODES}"
    first = f"({seen} unless {seen} offset $__rate_interval) + 0"
    return f"({_new(names.CARD_XIDS)} > 0) or {first} or 0 * {seen}"


_PACKING: Final = f"{_cards(rules.CARD_ALLOCATED)} / {_cards(names.CARD_MEMORY)}"

_GPUS: Final = PanelRow(
    "GPUs",
    (
        TablePanel(
            "GPUs",
            "The GPUs of the selected nodes now. Free units is what pods can still request of one GPU; it is "
            f"red and negative if more is allocated than the GPU has. {UNITS}",
            (("node", "Node"), ("card", "GPU")),
            (
                TableColumn("Memory", _cards(names.CARD_MEMORY), "bytes"),
                TableColumn("Allocated", _cards(rules.CARD_ALLOCATED), "bytes"),
                TableColumn("Used", _cards(names.CARD_USED), "bytes"),
                TableColumn("Allocated / total", _PACKING, "percentunit", FULL_IS_FINE),
                TableColumn("Free units", _cards(rules.CARD_FREE), "none", ((-1, "red"), (0, "green"))),
                TableColumn("GPU utilization", _cards(names.CARD_UTILIZATION), "percentunit"),
                TableColumn("Temperature", _cards(names.CARD_TEMPERATURE), "celsius", HOT),
                TableColumn("Power", _cards(names.CARD_POWER), "watt"),
            ),
        ),
        Panel(
            "Memory allocated / total",
            "The part of each GPU's memory that is allocated to containers. A full GPU is green: that is the "
            "purpose. Red is above 100 %: the GPU is over-committed and takes no pods.",
            _PACKING,
            "percentunit",
            CARD,
            "bars",
            FULL_IS_FINE,
            top=1,
        ),
    ),
)

_CONTAINERS: Final = PanelRow(
    "Containers",
    (
        containers(
            "Containers on these nodes",
            "Allocated, limited and used memory on each GPU. Limit is empty where memory is not limited. "
            "Used above allocated is red. The namespace links to the pod in GPU APP.",
            _NODES,
            DashboardLink("Pod in GPU APP", APP_UID, ("namespace", "pod")),
        ),
    ),
)

_MEMORY: Final = PanelRow(
    "Memory",
    (
        _by_gpu(
            "Memory used",
            "GPU memory in use, as the driver reports it, in bytes; also by processes outside of pods. Used "
            "memory on a GPU without pods belongs to a process that somebody started on the node.",
            names.CARD_USED,
            "bytes",
        ),
        _by_gpu(
            "Memory allocated",
            "GPU memory allocated to containers, in bytes. Far above the used memory, pods request too much.",
            rules.CARD_ALLOCATED,
            "bytes",
        ),
        _by_gpu(
            "Free units",
            f"What pods can still request of each GPU. {UNITS} A negative number is an over-committed GPU; "
            "it takes no pods until some of its pods end.",
            rules.CARD_FREE,
            "none",
        ),
    ),
)

_UTILIZATION: Final = PanelRow(
    "Utilization",
    (
        _by_gpu(
            "GPU utilization",
            "The part of the time in which at least one kernel ran on the GPU. At 100 %, pods on this GPU "
            "wait for each other: place fewer there, or give them compute shares.",
            names.CARD_UTILIZATION,
            "percentunit",
            top=1,
        ),
        _by_gpu(
            "Memory bandwidth utilization",
            "The part of the time in which the memory of the GPU was read or written. Near 100 %, memory and "
            "not computing is the bottleneck of the pods.",
            names.CARD_MEMORY_UTILIZATION,
            "percentunit",
            top=1,
        ),
        _by_gpu(
            "PCIe receive throughput",
            "Data from the host to the GPU, in bytes per second. If it stays near the limit of the slot, "
            "loading data slows the pods down.",
            names.CARD_PCIE_RECEIVED,
            "Bps",
        ),
        _by_gpu(
            "PCIe transmit throughput",
            "Data from the GPU to the host, in bytes per second. High values are rare: a program copies "
            "results back often, or its managed memory does not fit.",
            names.CARD_PCIE_SENT,
            "Bps",
        ),
        Panel(
            "Pods with CPUs of another NUMA node",
            "Pods on each GPU that may use no CPU beside it, so that their data takes a longer way. If they "
            "are slow at loading data, give them whole CPUs on a node with a topology manager.",
            f"sum by ({SAME_CARD}) (max by ({SAME_CARD}, namespace, pod) ({names.CONTAINER_REMOTE}{_NODES}))",
            "none",
            CARD,
        ),
    ),
)

_HARDWARE: Final = PanelRow(
    "Hardware",
    (
        _by_gpu(
            "Temperature",
            "Temperature of each GPU, in degrees Celsius. From about 90 on, GPUs reduce their clocks: check "
            "the fans and the air flow of the node.",
            names.CARD_TEMPERATURE,
            "celsius",
            HOT,
        ),
        _by_gpu(
            "Power",
            "Power draw of each GPU, in watts. At its power limit, a GPU reduces its clocks.",
            names.CARD_POWER,
            "watt",
        ),
        _by_gpu(
            "SM clock",
            "Clock of the processors of each GPU, in hertz. A low clock under load means too much heat or "
            "too little power.",
            names.CARD_SM_CLOCK,
            "hertz",
        ),
        _by_gpu(
            "Memory clock",
            "Clock of the memory of each GPU, in hertz. It falls on an idle GPU only.",
            names.CARD_MEMORY_CLOCK,
            "hertz",
        ),
        Panel(
            "ECC errors",
            "New memory errors in each interval of the graph. A few corrected ones are normal. Uncorrected "
            "ones end programs: drain the node and have the GPU checked.",
            _new(names.CARD_ECC),
            "none",
            f"{CARD} {{{{kind}}}}",
        ),
        Panel(
            "XID errors",
            "New errors that the driver reported, in each interval of the graph, by NVIDIA's number. Numbers "
            "such as 13, 31 and 43 come from programs, others from the GPU: look them up in NVIDIA's list of "
            "XID errors.",
            _new_xids(),
            "none",
            f"{CARD} XID {{{{xid}}}}",
            steps=NONE_IS_GOOD,
        ),
    ),
)

NODE: Final = Dashboard(
    NODE_UID,
    "GPU Node",
    "The GPUs of a node, their containers and their hardware. Select the node above.",
    (CLUSTERS, Variable("node", f"{names.CARD_INFO}{ALL}", some=True)),
    (_GPUS, _CONTAINERS, _MEMORY, _UTILIZATION, _HARDWARE),
)
