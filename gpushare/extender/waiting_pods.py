"""The pods that filter has refused only for a lack of free units, and the nodes where it did.

kube-scheduler asks for the nodes that meet all of its own conditions: selectors, taints, CPU, memory, other
pods. So these are the nodes where free units would be enough. Any replica may be asked; a follower passes on
to the leader what it was asked.
"""

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from gpushare.errors import InvalidRequest
from gpushare.scheduling.ledger import Ledger

_MOST_PODS: Final = 500
"""The pods that are known, the last ones: each has up to all nodes of the cluster."""
_VALID_S: Final = 360.0
"""kube-scheduler tries a pod again after five minutes at most. A pod that it no longer tries is forgotten."""


class WaitingPod(msgspec.Struct):
    """A pod and the nodes, as replicas send them to each other."""

    uid: str
    nodes: tuple[str, ...]


@dataclass(slots=True)
class _Refused:
    nodes: tuple[str, ...]
    since: float
    at: float


_DECODER: Final = msgspec.json.Decoder(list[WaitingPod])


def decoded(body: bytes) -> list[WaitingPod]:
    """What another replica was asked. Raises InvalidRequest."""
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"waiting pods: {error}") from error


class WaitingPods:
    """What this replica, and the followers, were asked."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pods: dict[str, _Refused] = {}
        self._untold: dict[str, None] = {}

    def note(self, uid: str, nodes: Collection[str], ledger: Ledger) -> None:
        """Remember where filter has refused a pod. Without nodes, the pod waits no longer."""
        before = self._pods.pop(uid, None)
        # The names of the ledger: those of a request are copies, of thousands of nodes for each pod.
        known = tuple(book.name for name in nodes if (book := ledger.books.get(name)))
        if not known:
            return
        now = self._clock()
        self._pods[uid] = _Refused(known, before.since if before else now, now)
        self._untold[uid] = None
        if len(self._pods) > _MOST_PODS:
            self.forget(next(iter(self._pods)))

    def forget(self, uid: str) -> None:
        """The pod is placed or gone."""
        self._pods.pop(uid, None)
        self._untold.pop(uid, None)

    def longer_than(self, seconds: float) -> dict[str, tuple[str, ...]]:
        """The pods that have waited so long, and their nodes; the longest wait first."""
        now = self._clock()
        for uid in [uid for uid, each in self._pods.items() if now - each.at > _VALID_S]:
            self.forget(uid)
        found = {uid: each for uid, each in self._pods.items() if now - each.since >= seconds}
        return {uid: each.nodes for uid, each in sorted(found.items(), key=lambda item: item[1].since)}

    def untold(self) -> bytes | None:
        """What the leader has not been told, as a request for it; None if there is nothing."""
        pods = [WaitingPod(uid, self._pods[uid].nodes) for uid in self._untold if uid in self._pods]
        self._untold.clear()
        return msgspec.json.encode(pods) if pods else None

    def note_all(self, pods: Iterable[WaitingPod], ledger: Ledger) -> None:
        """Remember what a follower was asked."""
        for each in pods:
            self.note(each.uid, each.nodes, ledger)
