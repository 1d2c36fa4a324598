"""Over-commitment in the recorded history of all pods of a soak. It shares no code with the product."""

from collections.abc import Iterable, Iterator

from tests.soak.actions import REAL, SIZE
from tests.support.history import Entry, has_units, overcommits, units_of


def overcommitted(history: Iterable[Entry]) -> list[str]:
    """Return the moments of over-commitment in the history of all pods.

    On nodes with an agent the annotation of the node outranks those of pods, and the OCI specs show what each
    GPU has: there only the sum of a node counts here.
    """
    entries = list(history)
    simulated = [each for each in entries if each[1]["spec"].get("nodeName") not in REAL]
    return [str(each) for each in overcommits(simulated, SIZE)] + [
        text for node, gpus in REAL.items() for text in _too_many(entries, node, gpus * SIZE)
    ]


def _too_many(history: Iterable[Entry], node: str, capacity: int) -> Iterator[str]:
    pods: dict[str, int] = {}
    for kind, pod in history:
        uid = pod["metadata"]["uid"]
        pods.pop(uid, None)
        if kind != "DELETED" and has_units(pod) and pod["spec"]["nodeName"] == node:
            pods[uid] = units_of(pod)
            if sum(pods.values()) > capacity:
                yield f"{node} has {sum(pods.values())} of {capacity} units bound: {pods}"
