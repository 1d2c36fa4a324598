"""Recording rules: metrics of the exporters and the extender by GPU, pod, namespace, node and cluster.

Alerts (``alerts``), panels (``dashboards``) and metric names (``catalogue``) do not belong here.

Names follow Prometheus' ``level:metric:operation``. Memory comes from the exporters, units from the
extender; all its replicas serve the same ledger. Unknown values have no series. Series of several clusters
differ in the label ``cluster``, which every aggregation keeps; with one cluster the label may be missing.
"""

from dataclasses import dataclass
from typing import Any, Final

from gpushare.monitoring import catalogue as names


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """A recorded series: name, query and help text."""

    record: str
    expr: str
    help: str

    def __str__(self) -> str:
        """Return the name, as queries use it."""
        return self.record


RULES: Final[list[RecordingRule]] = []
"""In evaluation order: each rule reads only those before it."""


def _rule(record: str, expr: str, text: str) -> RecordingRule:
    RULES.append(RecordingRule(record, expr, text))
    return RULES[-1]


_CLUSTER: Final = "cluster"
_NODE: Final = f"{_CLUSTER}, node"
_POD: Final = f"{_NODE}, namespace, pod"
_NAMESPACE: Final = f"{_CLUSTER}, namespace"
_INDEX: Final = f"{_NODE}, card"
_CARD: Final = f"{_INDEX}, uuid"
_BLIND: Final = f'{names.SOURCE_UP}{{source=~"pod-resources|pods|node"}} == 0'
"""Exporters that do not know the allocations."""


def _wasted(level: str, allocated: RecordingRule, used: RecordingRule) -> RecordingRule:
    return _rule(
        f"{level}:gpushare_memory_wasted_bytes:difference",
        f"{allocated} - {used}",
        "Memory allocated but unused; negative if more is used than allocated.",
    )


def _memory_use(level: str, allocated: RecordingRule, used: RecordingRule) -> RecordingRule:
    return _rule(
        f"{level}:gpushare_memory_utilization:ratio",
        f"{used} / ({allocated} > 0)",
        "Memory used as a fraction of the allocated memory.",
    )


CARD_ALLOCATED: Final = _rule(
    "card:gpushare_memory_allocated_bytes:sum",
    f"sum by ({_CARD}) ({names.CONTAINER_ALLOCATED})\n"
    f"or\n0 * max by ({_CARD}) (\n  {names.CARD_MEMORY}\n"
    f"  unless on ({_CLUSTER}, job, instance) ({_BLIND})\n)",
    "Memory of a GPU allocated to containers.",
)
CARD_USED: Final = _rule(
    "card:gpushare_memory_used_bytes:sum",
    f'sum by ({_CARD}) ({names.CONTAINER_USED}{{pod!=""}})\nor\n({CARD_ALLOCATED} == 0)',
    "Memory of a GPU used by pods.",
)

POD_ALLOCATED: Final = _rule(
    "pod:gpushare_memory_allocated_bytes:sum",
    f"sum by ({_POD}) ({names.CONTAINER_ALLOCATED})",
    "GPU memory allocated to a pod.",
)
POD_USED: Final = _rule(
    "pod:gpushare_memory_used_bytes:sum",
    f'sum by ({_POD}) ({names.CONTAINER_USED}{{pod!=""}})',
    "GPU memory used by a pod.",
)
POD_WASTED: Final = _wasted("pod", POD_ALLOCATED, POD_USED)
POD_MEMORY_USE: Final = _memory_use("pod", POD_ALLOCATED, POD_USED)
POD_COMPUTE: Final = _rule(
    "pod:gpushare_utilization:sum",
    f'sum by ({_POD}) ({names.CONTAINER_UTILIZATION}{{pod!=""}})',
    "SM utilization of a pod, in GPUs.",
)

NAMESPACE_ALLOCATED: Final = _rule(
    "namespace:gpushare_memory_allocated_bytes:sum",
    f"sum by ({_NAMESPACE}) ({POD_ALLOCATED})",
    "GPU memory allocated to the pods of a namespace.",
)
NAMESPACE_USED: Final = _rule(
    "namespace:gpushare_memory_used_bytes:sum",
    f"sum by ({_NAMESPACE}) ({POD_USED})",
    "GPU memory used by the pods of a namespace.",
)
NAMESPACE_GPUS: Final = _rule(
    "namespace:gpushare_gpus_allocated:sum",
    f"sum by ({_NAMESPACE}) (\n  {names.CONTAINER_ALLOCATED}\n"
    f"  / on ({_INDEX}) group_left max by ({_INDEX}) ({names.CARD_MEMORY} > 0)\n)",
    "GPUs allocated to the pods of a namespace: half of the memory of a GPU is half a GPU.",
)
NAMESPACE_COMPUTE: Final = _rule(
    "namespace:gpushare_utilization:sum",
    f"sum by ({_NAMESPACE}) ({POD_COMPUTE})",
    "SM utilization of the pods of a namespace, in GPUs.",
)

NODE_MEMORY: Final = _rule(
    "node:gpushare_memory_bytes:sum",
    f"sum by ({_NODE}) ({names.CARD_MEMORY})",
    "GPU memory of a node.",
)
NODE_ALLOCATED: Final = _rule(
    "node:gpushare_memory_allocated_bytes:sum",
    f"sum by ({_NODE}) ({CARD_ALLOCATED})",
    "GPU memory of a node allocated to containers.",
)
NODE_USED: Final = _rule(
    "node:gpushare_memory_used_bytes:sum",
    f"sum by ({_NODE}) ({CARD_USED})",
    "GPU memory of a node used by pods.",
)
NODE_WASTED: Final = _wasted("node", NODE_ALLOCATED, NODE_USED)
NODE_MEMORY_USE: Final = _memory_use("node", NODE_ALLOCATED, NODE_USED)
NODE_PACKING: Final = _rule(
    "node:gpushare_memory_allocated:ratio",
    f"{NODE_ALLOCATED} / {NODE_MEMORY}",
    "Allocated fraction of a node's GPU memory.",
)
NODE_COMPUTE: Final = _rule(
    "node:gpushare_utilization:avg",
    f"avg by ({_NODE}) ({names.CARD_UTILIZATION})",
    "Average GPU utilization of a node.",
)

CLUSTER_MEMORY: Final = _rule(
    "cluster:gpushare_memory_bytes:sum", f"sum by ({_CLUSTER}) ({NODE_MEMORY})", "Memory of all GPUs."
)
CLUSTER_ALLOCATED: Final = _rule(
    "cluster:gpushare_memory_allocated_bytes:sum",
    f"sum by ({_CLUSTER}) ({NODE_ALLOCATED})",
    "Memory of all GPUs allocated to containers.",
)
CLUSTER_USED: Final = _rule(
    "cluster:gpushare_memory_used_bytes:sum",
    f"sum by ({_CLUSTER}) ({NODE_USED})",
    "Memory of all GPUs used by pods.",
)
CLUSTER_WASTED: Final = _wasted("cluster", CLUSTER_ALLOCATED, CLUSTER_USED)
CLUSTER_MEMORY_USE: Final = _memory_use("cluster", CLUSTER_ALLOCATED, CLUSTER_USED)
CLUSTER_PACKING: Final = _rule(
    "cluster:gpushare_memory_allocated:ratio",
    f"{CLUSTER_ALLOCATED} / {CLUSTER_MEMORY}",
    "Allocated fraction of the memory of all GPUs.",
)
CLUSTER_COMPUTE: Final = _rule(
    "cluster:gpushare_utilization:avg",
    f"avg by ({_CLUSTER}) ({names.CARD_UTILIZATION})",
    "Average GPU utilization of the cluster.",
)

CARD_UNITS: Final = _rule(
    "card:gpushare_units:max", f"max by ({_INDEX}) ({names.CARD_UNITS})", "Total units of a GPU."
)
CARD_FREE: Final = _rule(
    "card:gpushare_free_units:min",
    f"min by ({_INDEX}) ({names.CARD_FREE_UNITS})",
    "Free units of a GPU.",
)
NODE_UNITS: Final = _rule(
    "node:gpushare_units:sum", f"sum by ({_NODE}) ({CARD_UNITS})", "Total units of a node."
)
NODE_FREE: Final = _rule(
    "node:gpushare_free_units:sum",
    f"sum by ({_NODE}) (clamp_min({CARD_FREE}, 0))",
    "Free units of a node; an over-committed GPU has none.",
)
CLUSTER_UNITS: Final = _rule(
    "cluster:gpushare_units:sum", f"sum by ({_CLUSTER}) ({NODE_UNITS})", "Total units of the cluster."
)
CLUSTER_FREE: Final = _rule(
    "cluster:gpushare_free_units:sum", f"sum by ({_CLUSTER}) ({NODE_FREE})", "Free units of the cluster."
)
CLUSTER_LARGEST_FREE: Final = _rule(
    "cluster:gpushare_free_units:max",
    f"max by ({_CLUSTER}) ({CARD_FREE})",
    "Most free units on one GPU.",
)
FRAGMENTATION: Final = _rule(
    "cluster:gpushare_fragmentation:ratio",
    f"(1 - {CLUSTER_LARGEST_FREE} / max by ({_CLUSTER}) ({CARD_UNITS}))"
    f"\n* ({CLUSTER_FREE} >= bool max by ({_CLUSTER}) ({CARD_UNITS}))",
    "Fraction of the largest GPU that is free in total, but on no single GPU; 0 if less is free.",
)


def document() -> dict[str, Any]:
    """Return Prometheus' rule file: one group, so that all rules have the same timestamp."""
    rules = [{"record": rule.record, "expr": rule.expr} for rule in RULES]
    return {"groups": [{"name": "gpushare.rules", "rules": rules}]}
