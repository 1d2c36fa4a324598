"""The records of all components at one moment, and what is wrong with them; no code of the product.

What belongs here: values, and comparing them. What does not: reading them (``tests.soak.reading``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.soak.actions import NODES, REAL, SIZE, Shape
from tests.soak.judging import too_many
from tests.support.history import cards_of, has_units

Cards = Mapping[int, int]
"""GPU → units."""
Pod = Mapping[str, Any]
_ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True)
class NodeRecords:
    """The records of a node with a kubelet, by UID of the pod.

    ``specs`` are from the OCI specs of running containers, ``record`` is the agent's, ``assigned`` the
    annotation of the node, ``checkpoint`` the kubelet's file, and ``resources`` PodResources, by pod name.
    """

    specs: Mapping[str, Cards] = field(default_factory=dict)
    record: Mapping[str, Cards] = field(default_factory=dict)
    assigned: Mapping[str, Cards] = field(default_factory=dict)
    checkpoint: Mapping[str, int] = field(default_factory=dict)
    resources: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Records:
    """All records. ``pods`` are those of the API; ``ledgers`` are replica → (node, pod) → GPU → units."""

    wanted: Mapping[str, Shape]
    finished: frozenset[str]
    pods: Mapping[str, Pod]
    ledgers: Mapping[str, Mapping[tuple[str, str], Cards]]
    nodes: Mapping[str, NodeRecords]


def problems(found: Records) -> list[str]:
    """Return what is wrong in a cluster at rest: lost pods, pods that should be gone, different records."""
    truth = {name: _cards(found, pod) for name, pod in found.pods.items() if has_units(pod)}
    by_node = {
        (str(found.pods[name]["spec"]["nodeName"]), name): cards for name, cards in truth.items() if cards
    }
    return [
        *_lost(found, truth),
        *(f"{name} was deleted and is still there" for name in found.pods.keys() - found.wanted.keys()),
        *too_many(by_node),
        *(f"{replica}: {text}" for replica, each in found.ledgers.items() for text in _odd(by_node, each)),
        *(f"{node}: {text}" for node, each in found.nodes.items() for text in _on_node(found, node, each)),
    ]


def _cards(found: Records, pod: Pod) -> Cards:
    """Return GPU → units of a bound pod: what its containers have, on a simulated node its annotation."""
    node = pod["spec"]["nodeName"]
    return found.nodes[node].specs.get(pod["metadata"]["uid"], {}) if node in REAL else cards_of(pod)


def _lost(found: Records, truth: Mapping[str, Cards]) -> Iterator[str]:
    free = _free(found, truth)
    for name, shape in found.wanted.items():
        pod = found.pods.get(name)
        if pod is None:
            yield f"{name} is lost: it does not exist"
        elif not pod["spec"].get("nodeName"):
            fits = [node for node, cards in free.items() if _fits(shape, cards)]
            if fits:
                yield f"{name} ({shape}) is pending, and fits {', '.join(fits)}"
        elif name not in found.finished or pod["status"].get("phase") not in _ENDED:
            yield from _runs(name, shape, pod, truth.get(name, {}))


def _runs(name: str, shape: Shape, pod: Pod, cards: Cards) -> Iterator[str]:
    phase, node = pod["status"].get("phase"), pod["spec"]["nodeName"]
    if phase != "Running":
        yield f"{name} on {node} is {phase}: {pod['status'].get('message', '')}"
    elif sorted(cards.values()) != [shape.per_gpu] * shape.gpus:
        yield f"{name} ({shape}) on {node} has {dict(cards)}"


def _free(found: Records, truth: Mapping[str, Cards]) -> dict[str, list[int]]:
    """Node → free units of each GPU."""
    free = {node: [SIZE] * gpus for node, gpus in NODES.items()}
    for name, cards in truth.items():
        for card, units in cards.items():
            free[found.pods[name]["spec"]["nodeName"]][card] -= units
    return free


def _fits(shape: Shape, free: list[int]) -> bool:
    return sum(units >= shape.per_gpu for units in free) >= shape.gpus


def _on_node(found: Records, node: str, records: NodeRecords) -> Iterator[str]:
    """Compare the records of a node. The kubelet frees devices late: only its pods that run count."""
    here = {
        str(pod["metadata"]["uid"]): (name, pod)
        for name, pod in found.pods.items()
        if has_units(pod) and pod["spec"]["nodeName"] == node
    }
    yield from (f"record of the agent: {text}" for text in _odd(records.specs, records.record))
    for uid, cards in records.specs.items():
        if uid not in here:
            yield f"containers of a pod that is gone: {uid} has {dict(cards)}"
    for uid, (name, pod) in here.items():
        cards, units = records.specs.get(uid, {}), found.wanted[name].units if name in found.wanted else 0
        published = records.assigned.get(uid) or cards_of(pod)
        if published != cards:
            yield f"{name}: published {dict(published)}, its containers have {dict(cards)}"
        if records.checkpoint.get(uid) != units:
            yield f"{name}: checkpoint of the kubelet: {records.checkpoint.get(uid)} of {units} units"
        if records.resources.get(name) != units:
            yield f"{name}: PodResources of the kubelet: {records.resources.get(name)} of {units} units"
    yield from (f"assigned to a pod that is gone: {uid}" for uid in records.assigned.keys() - here.keys())


def _odd(truth: Mapping[Any, Cards], other: Mapping[Any, Cards]) -> Iterator[str]:
    for key in {**truth, **other}:
        if truth.get(key) != other.get(key):
            yield f"{key}: {other.get(key)}, its containers have {truth.get(key)}"
