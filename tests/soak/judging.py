"""Over-commitment in the containers of a node, and in the recorded history of all pods of a soak.

It shares no code with the product.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tests.soak.actions import REAL, SIZE
from tests.support.history import Entry, has_units, overcommits, units_of


def too_many(in_use: Mapping[tuple[str, str], Mapping[int, int]]) -> list[str]:
    """Return the GPUs whose pods have more units than it has; ``in_use`` is by node and pod."""
    total: Counter[tuple[str, int]] = Counter()
    for (node, _), cards in in_use.items():
        total.update({(node, card): units for card, units in cards.items()})
    return [
        f"GPU {card} of {node} has {units} of {SIZE} units: {_pods_on(node, card, in_use)}"
        for (node, card), units in total.items()
        if units > SIZE
    ]


def _pods_on(node: str, card: int, in_use: Mapping[tuple[str, str], Mapping[int, int]]) -> str:
    return ", ".join(pod for (other, pod), cards in in_use.items() if other == node and card in cards)


def overcommitted(history: Iterable[Entry]) -> list[str]:
    """Return the moments of over-commitment in the history of all pods.

    On nodes with an agent the annotation of the node outranks those of pods, and the OCI specs show what each
    GPU has: there only the sum of a node counts here.
    """
    entries = list(history)
    simulated = [each for each in entries if each[1]["spec"].get("nodeName") not in REAL]
    return [str(each) for each in overcommits(simulated, SIZE)] + [
        text for node, gpus in REAL.items() for text in _bound_too_many(entries, node, gpus * SIZE)
    ]


def _bound_too_many(history: Iterable[Entry], node: str, capacity: int) -> Iterator[str]:
    pods: dict[str, int] = {}
    for kind, pod in history:
        uid = pod["metadata"]["uid"]
        pods.pop(uid, None)
        if kind != "DELETED" and has_units(pod) and pod["spec"]["nodeName"] == node:
            pods[uid] = units_of(pod)
            if sum(pods.values()) > capacity:
                yield f"{node} has {sum(pods.values())} of {capacity} units bound: {pods}"
