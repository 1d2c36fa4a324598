"""What Prometheus records of the exporters' and the extender's series, by card, pod, node and cluster.

What belongs here: recording rules, as values. What does not: alerts (``alerts``), panels (``dashboards``)
and names of metrics, which are the catalogue's.

Names follow Prometheus' ``level:metric:operation``. Memory is what the nodes tell; units are what the
extender has promised, whose replicas all serve the same ledger. What is not known has no series.
"""

from dataclasses import dataclass
from typing import Any, Final

from gpushare.monitoring import catalogue as names


@dataclass(frozen=True, slots=True)
class Rule:
    """A series that is recorded: its name, its query and its meaning."""

    record: str
    expr: str
    help: str

    def __str__(self) -> str:
        """The name, as queries have it."""
        return self.record


_POD: Final = "node, namespace, pod"
_CARD: Final = "node, card, uuid"
_BLIND: Final = f'{names.SOURCE_UP}{{source=~"pod-resources|pods|node"}} == 0'
"""Exporters that cannot tell what was given."""


def _wasted(level: str, allocated: Rule, used: Rule) -> Rule:
    return Rule(
        f"{level}:gpushare_memory_wasted_bytes:difference",
        f"{allocated} - {used}",
        "Memory that was given and is not used; negative where more is used than was given.",
    )


def _memory_use(level: str, allocated: Rule, used: Rule) -> Rule:
    return Rule(
        f"{level}:gpushare_memory_utilization:ratio",
        f"{used} / ({allocated} > 0)",
        "Part of the given memory that is used.",
    )


CARD_ALLOCATED: Final = Rule(
    "card:gpushare_memory_allocated_bytes:sum",
    f"sum by ({_CARD}) ({names.CONTAINER_ALLOCATED})\n"
    f"or\n0 * max by ({_CARD}) (\n  {names.CARD_MEMORY}\n  unless on (job, instance) ({_BLIND})\n)",
    "Memory of a card that containers were given.",
)
CARD_USED: Final = Rule(
    "card:gpushare_memory_used_bytes:sum",
    f'sum by ({_CARD}) ({names.CONTAINER_USED}{{pod!=""}})\nor\n({CARD_ALLOCATED} == 0)',
    "Memory of a card that pods use.",
)

POD_ALLOCATED: Final = Rule(
    "pod:gpushare_memory_allocated_bytes:sum",
    f"sum by ({_POD}) ({names.CONTAINER_ALLOCATED})",
    "Memory that a pod was given.",
)
POD_USED: Final = Rule(
    "pod:gpushare_memory_used_bytes:sum",
    f'sum by ({_POD}) ({names.CONTAINER_USED}{{pod!=""}})',
    "Memory of cards that a pod uses.",
)
POD_WASTED: Final = _wasted("pod", POD_ALLOCATED, POD_USED)
POD_MEMORY_USE: Final = _memory_use("pod", POD_ALLOCATED, POD_USED)
POD_COMPUTE: Final = Rule(
    "pod:gpushare_utilization:sum",
    f'sum by ({_POD}) ({names.CONTAINER_UTILIZATION}{{pod!=""}})',
    "Multiprocessors that a pod takes, in cards.",
)

NODE_MEMORY: Final = Rule(
    "node:gpushare_memory_bytes:sum",
    f"sum by (node) ({names.CARD_MEMORY})",
    "Memory of a node's cards.",
)
NODE_ALLOCATED: Final = Rule(
    "node:gpushare_memory_allocated_bytes:sum",
    f"sum by (node) ({CARD_ALLOCATED})",
    "Memory of a node's cards that containers were given.",
)
NODE_USED: Final = Rule(
    "node:gpushare_memory_used_bytes:sum",
    f"sum by (node) ({CARD_USED})",
    "Memory of a node's cards that pods use.",
)
NODE_WASTED: Final = _wasted("node", NODE_ALLOCATED, NODE_USED)
NODE_MEMORY_USE: Final = _memory_use("node", NODE_ALLOCATED, NODE_USED)
NODE_PACKING: Final = Rule(
    "node:gpushare_memory_allocated:ratio",
    f"{NODE_ALLOCATED} / {NODE_MEMORY}",
    "Part of a node's memory of cards that was given.",
)
NODE_COMPUTE: Final = Rule(
    "node:gpushare_utilization:avg",
    f"avg by (node) ({names.CARD_UTILIZATION})",
    "Part of the time in which a node's cards compute.",
)

CLUSTER_MEMORY: Final = Rule(
    "cluster:gpushare_memory_bytes:sum", f"sum({NODE_MEMORY})", "Memory of all cards."
)
CLUSTER_ALLOCATED: Final = Rule(
    "cluster:gpushare_memory_allocated_bytes:sum",
    f"sum({NODE_ALLOCATED})",
    "Memory of all cards that containers were given.",
)
CLUSTER_USED: Final = Rule(
    "cluster:gpushare_memory_used_bytes:sum", f"sum({NODE_USED})", "Memory of all cards that pods use."
)
CLUSTER_WASTED: Final = _wasted("cluster", CLUSTER_ALLOCATED, CLUSTER_USED)
CLUSTER_MEMORY_USE: Final = _memory_use("cluster", CLUSTER_ALLOCATED, CLUSTER_USED)
CLUSTER_PACKING: Final = Rule(
    "cluster:gpushare_memory_allocated:ratio",
    f"{CLUSTER_ALLOCATED} / {CLUSTER_MEMORY}",
    "Part of the memory of all cards that was given.",
)
CLUSTER_COMPUTE: Final = Rule(
    "cluster:gpushare_utilization:avg",
    f"avg({names.CARD_UTILIZATION})",
    "Part of the time in which cards compute.",
)

CARD_UNITS: Final = Rule(
    "card:gpushare_units:max", f"max by (node, card) ({names.CARD_UNITS})", "Units that a card has."
)
CARD_FREE: Final = Rule(
    "card:gpushare_free_units:min",
    f"min by (node, card) ({names.CARD_FREE_UNITS})",
    "Units of a card that are promised to nobody.",
)
NODE_UNITS: Final = Rule(
    "node:gpushare_units:sum", f"sum by (node) ({CARD_UNITS})", "Units of a node's cards."
)
NODE_FREE: Final = Rule(
    "node:gpushare_free_units:sum", f"sum by (node) ({CARD_FREE})", "Free units of a node's cards."
)
CLUSTER_UNITS: Final = Rule("cluster:gpushare_units:sum", f"sum({NODE_UNITS})", "Units of all cards.")
CLUSTER_FREE: Final = Rule("cluster:gpushare_free_units:sum", f"sum({NODE_FREE})", "Free units of all cards.")
CLUSTER_LARGEST_FREE: Final = Rule(
    "cluster:gpushare_free_units:max", f"max({CARD_FREE})", "The most that a pod on one card can get now."
)
FRAGMENTATION: Final = Rule(
    "cluster:gpushare_fragmentation:ratio",
    f"(1 - {CLUSTER_LARGEST_FREE} / max({CARD_UNITS}))\n* ({CLUSTER_FREE} >= bool max({CARD_UNITS}))",
    "Part of the largest card that no card has free, though as much is free in all; else 0.",
)

RULES: Final = (
    CARD_ALLOCATED,
    CARD_USED,
    POD_ALLOCATED,
    POD_USED,
    POD_WASTED,
    POD_MEMORY_USE,
    POD_COMPUTE,
    NODE_MEMORY,
    NODE_ALLOCATED,
    NODE_USED,
    NODE_WASTED,
    NODE_MEMORY_USE,
    NODE_PACKING,
    NODE_COMPUTE,
    CLUSTER_MEMORY,
    CLUSTER_ALLOCATED,
    CLUSTER_USED,
    CLUSTER_WASTED,
    CLUSTER_MEMORY_USE,
    CLUSTER_PACKING,
    CLUSTER_COMPUTE,
    CARD_UNITS,
    CARD_FREE,
    NODE_UNITS,
    NODE_FREE,
    CLUSTER_UNITS,
    CLUSTER_FREE,
    CLUSTER_LARGEST_FREE,
    FRAGMENTATION,
)
"""In the order in which they are worked out: each reads only those before it."""


def document() -> dict[str, Any]:
    """Prometheus' rule file; one group, so that all are of one moment."""
    rules = [{"record": rule.record, "expr": rule.expr} for rule in RULES]
    return {"groups": [{"name": "gpushare.rules", "rules": rules}]}
