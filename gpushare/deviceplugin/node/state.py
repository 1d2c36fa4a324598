"""The one owner of the tenancy: takes in pods, cards, decisions and the kubelet's checkpoint.

All calls come from one event loop. Between reading the tenancy and changing it nothing is awaited, so
there are no locks here; the calls of the kubelet are served one at a time by ``allocator``. What others
are told of it is ``telling``'s, and what has to be looked after from time to time is ``upkeep``'s.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from gpushare.contract import LABEL_NO_ISOLATION, LABEL_PLACEMENT
from gpushare.deviceplugin.core.allocations import Allocation, Allocations, Key
from gpushare.deviceplugin.core.decision import with_allocation
from gpushare.deviceplugin.core.reconcile import ServedContainer, join, marked, retained
from gpushare.deviceplugin.core.shared_gpus import SharedGpus
from gpushare.deviceplugin.core.whole_gpus import Devices, WholeGpus, notices, with_whole_gpus
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.modes import mode_of
from gpushare.model.own_node import GpuPod, NodePod, OwnNode


class KubeletRecord(NamedTuple):
    """What the kubelet has recorded: containers with units of memory, and pods with whole GPUs by UID."""

    served: tuple[ServedContainer, ...] = ()
    whole: Mapping[str, Devices] = MappingProxyType({})


Checkpoint = Callable[[], KubeletRecord | None]
"""What the kubelet's checkpoint names now; None where it cannot be read."""
_UNREAD: Final = "the node has not been read yet"


class NodeState:
    """The pods and cards of this node. ``edition`` is another number after each change.

    ``lineup`` are the cards as they are offered, None before they are known; ``whole`` are the pods that have
    some of them as whole GPUs.
    """

    def __init__(self, node: str, grants: Iterable[Allocation], checkpoint: Checkpoint) -> None:
        self.allocations = Allocations(node, by_container={grant.key: grant for grant in grants})
        self.shared_gpus: SharedGpus | None = None
        self.whole = WholeGpus()
        self.edition = 0
        self._unread = True
        self._refusal: str | None = None
        self._synced = False
        self._checkpoint = checkpoint
        self._found: SharedGpus | None = None
        self._node_pods: dict[str, NodePod] = {}
        self._uids: dict[str, str] = {}
        self._strangers: set[str] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._joined: tuple[object, object] = (None, None)

    @property
    def refusal(self) -> str | None:
        """Why nothing may be served on this node, None where it may."""
        return _UNREAD if self._unread else self._refusal

    @property
    def offered(self) -> SharedGpus | None:
        """The cards that are served, None while they may not be."""
        return self.shared_gpus if self.refusal is None else None

    @property
    def notices(self) -> tuple[str, ...]:
        """Why cards that are served take no pods although nothing is wrong with them."""
        return tuple(notices(self.offered, self.whole)) if self.offered else ()

    def take_shared_gpus(self, shared_gpus: SharedGpus) -> None:
        """The cards are these from now on."""
        self._found = shared_gpus
        self._offer(shared_gpus)

    def take_node(self, facts: OwnNode, refusal: str | None) -> None:
        """The node's labels are these; ``refusal`` is why nothing may be served on it."""
        self._unread, self._refusal = False, refusal
        mode, _ = mode_of(facts.labels)
        placement = facts.labels.get(LABEL_PLACEMENT)
        isolated = facts.labels.get(LABEL_NO_ISOLATION) != "true"
        self.allocations = replace(self.allocations, mode=mode, placement=placement, isolated=isolated)
        self._announce()

    def stop_waiting(self) -> None:
        """Serve although the API has not shown the node. What it has shown against serving still counts."""
        self.refresh()
        self._unread = False
        self._announce()

    def take_node_pods(self, batch: Iterable[Upserted[NodePod] | Deleted]) -> None:
        """Pods of any kind were added, changed or deleted."""
        changes = list(batch)
        for change in changes:
            if isinstance(change, Deleted) or change.value.finished:
                self._node_pods.pop(change.key, None)
            else:
                self._node_pods[change.key] = change.value
        self._swap_whole(self.whole.shown({each.uid: each.full_name for each in self._node_pods.values()}))
        self.take_pods(gpu_pod for change in changes if (gpu_pod := _gpu_pod(change)))

    def take_pods(self, batch: Iterable[Upserted[GpuPod] | Deleted]) -> None:
        """Pods were added, changed or deleted. A finished pod lives here no more."""
        gpu_pods = dict(self.allocations.gpu_pods)
        for change in batch:
            if isinstance(change, Deleted):
                uid = self._uids.pop(change.key, change.key)
                if uid not in self._uids.values():
                    # A static pod lives on where only one of its mirrors is gone.
                    gpu_pods.pop(uid, None)
            elif change.value.pod.finished:
                gpu_pods.pop(change.value.uid, None)
            else:
                self._uids[change.key] = change.value.uid
                self._strangers.discard(change.value.uid)
                gpu_pods[change.value.uid] = change.value
        self._swap(replace(self.allocations, gpu_pods=gpu_pods))

    def settle(self) -> None:
        """All pods of this node are known: whoever is not among them is gone."""
        self._synced = True
        self.refresh()
        self._swap(marked(self.allocations))

    def take_strangers(self, found: Iterable[GpuPod]) -> None:
        """Pods that the kubelet knows and the API does not show, or not yet: these and no others."""
        known = {uid: each for uid, each in self.allocations.gpu_pods.items() if uid not in self._strangers}
        unknown = {each.uid: each for each in found if each.uid not in known and not each.pod.finished}
        self._strangers = set(unknown)
        self._swap(replace(self.allocations, gpu_pods={**known, **unknown}))

    def take_grant(self, grant: Allocation) -> None:
        """A decision was made."""
        self._swap(with_allocation(self.allocations, grant))

    def drop_grant(self, grant: Allocation, before: Allocation | None) -> None:
        """The decision could not be written down, so nobody is told of it: ``before`` is what holds."""
        kept = {key: each for key, each in self.allocations.by_container.items() if each is not grant}
        if before and grant.key not in kept:
            kept[before.key] = before
        self._swap(replace(self.allocations, by_container=kept))

    def refresh(self) -> frozenset[Key] | None:
        """Join with the checkpoint; returns whom it names, None where it cannot be read."""
        recorded = self._checkpoint()
        if recorded is None:
            return None
        if not (recorded is self._joined[0] and self.allocations is self._joined[1]):
            self.take_whole(recorded.whole)
            self.take_served(recorded.served)
            self._joined = recorded, self.allocations
        return frozenset(entry.key for entry in recorded.served)

    def take_whole(self, found: Mapping[str, Devices]) -> None:
        """These pods have these devices of another plugin, whoever says so."""
        self._swap_whole(self.whole.recorded(found))

    def take_served(self, served: Sequence[ServedContainer]) -> None:
        """These containers hold these devices, whoever says so."""
        self._swap(join(self.allocations, served))

    @property
    def uids(self) -> Mapping[str, str]:
        """The pods that live here, by full name."""
        return {each.full_name: each.uid for each in self._node_pods.values()}

    @property
    def certain(self) -> bool:
        """Whether all pods of this node and all that the kubelet has given them are known."""
        return self._synced and self.refresh() is not None

    @property
    def gone(self) -> frozenset[str]:
        """Pods that hold a card and live here no more; none before all pods are known."""
        gone = self.whole.unseen | (self.allocations.by_pod.keys() - self.allocations.gpu_pods.keys())
        return gone if self._synced else frozenset()

    def let_go(self, uids: frozenset[str]) -> None:
        """Take the cards back from these pods, unless one lives here again."""
        self._swap_whole(self.whole.let_go(uids))
        self._swap(retained(self.allocations, frozenset(self.allocations.by_pod.keys() - uids)))

    async def changed(self) -> None:
        """Return when something changes."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            if future in self._waiting:
                self._waiting.remove(future)

    def _swap_whole(self, whole: WholeGpus) -> None:
        before, self.whole = self.whole, whole
        if self._found and with_whole_gpus(self._found, whole) != self.shared_gpus:
            self._offer(self._found)
        elif whole.unseen != before.unseen:
            # Whether these are gone for good is looked for.
            self._announce()

    def _offer(self, found: SharedGpus) -> None:
        self.shared_gpus = with_whole_gpus(found, self.whole)
        self.allocations = marked(replace(self.allocations, cards=self.shared_gpus.cards))
        self._announce()

    def _swap(self, allocations: Allocations) -> None:
        if allocations != self.allocations:
            self.allocations = allocations
            self._announce()

    def _announce(self) -> None:
        self.edition += 1
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()


def _gpu_pod(change: Upserted[NodePod] | Deleted) -> Upserted[GpuPod] | Deleted | None:
    if isinstance(change, Deleted):
        return change
    return Upserted(change.key, change.value.gpu_pod) if change.value.gpu_pod else None
