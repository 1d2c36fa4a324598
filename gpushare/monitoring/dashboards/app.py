"""*GPU APP*: what pods have of the GPUs, and what they do with it."""

from typing import Final

from gpushare.monitoring import catalogue as names
from gpushare.monitoring import rules
from gpushare.monitoring.dashboards.parts import (
    ALL,
    APP_UID,
    CLUSTER_MATCHER,
    CLUSTERS,
    LINES,
    POD,
    SAME_CARD,
    containers,
    highest,
)
from gpushare.monitoring.panels import HOT, NEUTRAL, Dashboard, Panel, PanelRow, Steps, Variable

_PODS: Final = f'{{{CLUSTER_MATCHER},namespace=~"$namespace",pod=~"$pod"}}'
_SAME_POD: Final = "cluster, namespace, pod"
_LARGEST: Final = highest(f"{rules.POD_ALLOCATED}{_PODS}")
_LIMITED: Final = (
    f"Of more than {LINES} pods, those with the most allocated memory: select a namespace or pods."
)


def _of_pods(
    title: str,
    description: str,
    expr: str,
    unit: str,
    *,
    steps: Steps = NEUTRAL,
    top: float | None = None,
) -> Panel:
    """A graph with a line for each of the selected pods; the same pods in all graphs."""
    query = f"{expr} and on ({_SAME_POD}) {_LARGEST}"
    return Panel(title, f"{description} {_LIMITED}", query, unit, POD, steps=steps, top=top)


def _sum(metric: names.Metric) -> str:
    return f"sum by ({_SAME_POD}) ({metric}{_PODS})"


def _of_pods_gpu(metric: names.Metric) -> str:
    """Return the query for a GPU's value by each pod on it."""
    return (
        f"max by ({_SAME_POD}) (0 * {names.CONTAINER_ALLOCATED}{_PODS}"
        f" + on ({SAME_CARD}) group_left max by ({SAME_CARD}) ({metric}))"
    )


_MEMORY: Final = PanelRow(
    "Memory",
    (
        _of_pods(
            "Memory used",
            "GPU memory that the processes of a pod use, as the driver reports it, in bytes. "
            "A line that only rises may be a leak.",
            f"{rules.POD_USED}{_PODS}",
            "bytes",
        ),
        _of_pods(
            "Memory allocated",
            "GPU memory that a pod has requested and got, in bytes. No other pod can have it, used or not.",
            f"{rules.POD_ALLOCATED}{_PODS}",
            "bytes",
        ),
        _of_pods(
            "Memory used / allocated",
            "The part of its allocated memory that a pod uses. Above 100 % the pod has no limit, or uses "
            "memory outside of it. Near 0 % it can request less: kubectl gpushare recommend says how much.",
            f"{rules.POD_MEMORY_USE}{_PODS}",
            "percentunit",
            top=1,
        ),
        _of_pods(
            "Memory allocated / total",
            "The part of the memory of its GPUs that is allocated to a pod; 100 % is one whole GPU.",
            f"sum by ({_SAME_POD}) ({names.CONTAINER_ALLOCATED}{_PODS}"
            f" / on ({SAME_CARD}) group_left max by ({SAME_CARD}) ({names.CARD_MEMORY}))",
            "percentunit",
            top=1,
        ),
        _of_pods(
            "Allocated but unused",
            "Allocated memory that a pod does not use, in bytes. If it stays high, request less. "
            "Negative if the pod uses more than it was allocated.",
            f"{rules.POD_WASTED}{_PODS}",
            "bytes",
        ),
        _of_pods(
            "Peak memory / limit",
            "The highest use since the containers started, as a part of their enforced limit. "
            "Near 100 %, the next allocation may be refused: request more. Empty without enforced limits.",
            f"{_sum(names.CONTAINER_PEAK)} / {_sum(names.CONTAINER_LIMIT)}",
            "percentunit",
            top=1,
        ),
        _of_pods(
            "Refused memory requests",
            "How often a pod asked for GPU memory above its limit and was refused, in each interval of the "
            "graph. Most programs end with an out-of-memory error then. Request more, or use a smaller "
            "batch.",
            f"sum by ({_SAME_POD}) (increase({names.CONTAINER_REFUSALS}{_PODS}[$__rate_interval]))",
            "none",
        ),
    ),
)

_GPU: Final = PanelRow(
    "GPU",
    (
        _of_pods(
            "SM utilization",
            "The part of the time in which a pod computes on its GPUs; 200 % is two GPUs all the time. "
            "A pod that stays at 0 % keeps its memory from others.",
            f"{rules.POD_COMPUTE}{_PODS}",
            "percentunit",
        ),
        _of_pods(
            "GPU temperature",
            "The temperature of the hottest GPU of a pod, in degrees Celsius. All pods on the GPU cause it. "
            "From about 90 on, GPUs reduce their clocks: check the cooling of the node.",
            _of_pods_gpu(names.CARD_TEMPERATURE),
            "celsius",
            steps=HOT,
        ),
        _of_pods(
            "GPU power",
            "The highest power draw of the GPUs of a pod, in watts. All pods on the GPU cause it.",
            _of_pods_gpu(names.CARD_POWER),
            "watt",
        ),
    ),
)

APP: Final = Dashboard(
    APP_UID,
    "GPU APP",
    "What pods have of the GPUs, and what they do with it.",
    (
        CLUSTERS,
        Variable("namespace", f"{names.CONTAINER_ALLOCATED}{ALL}"),
        Variable("pod", f'{names.CONTAINER_ALLOCATED}{{{CLUSTER_MATCHER},namespace=~"$namespace"}}'),
    ),
    (
        PanelRow(
            "Containers",
            (
                containers(
                    "Containers",
                    "The containers of the selected pods on each of their GPUs. Limit is empty where memory "
                    "is not limited. Used above allocated is red; far below it, the pod can request less.",
                    _PODS,
                    None,
                ),
            ),
        ),
        _MEMORY,
        _GPU,
    ),
)
