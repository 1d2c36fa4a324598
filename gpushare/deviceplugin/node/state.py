"""The state of this node: its GPUs, pods and allocations, joined with the kubelet's checkpoint.

Each source applies what it has read, and readers take a snapshot. All calls come from one event loop, and no
method awaits between reading and changing the state, so there are no locks. ``checkpoint`` reads the
checkpoint, the allocator serves the kubelet's calls one at a time, ``api.status`` reports changes, and
``reconciler`` runs the periodic work.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from gpushare.contract import LABEL_NO_ISOLATION, LABEL_PLACEMENT
from gpushare.deviceplugin.core.allocations import AllocateSnapshot, Allocation, Allocations
from gpushare.deviceplugin.core.decision import with_allocation
from gpushare.deviceplugin.core.reconcile import (
    ServedContainer,
    join,
    marked,
    remembered,
    retained,
    stale_entries,
)
from gpushare.deviceplugin.core.shared_gpus import SharedGpus, with_closed
from gpushare.deviceplugin.core.whole_gpus import Devices, WholeGpus, notices, with_whole_gpus
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.device_lists import BY_MOUNTS, DeviceList
from gpushare.model.local_node import GpuPod, LocalNode, LocalPod, by_uid
from gpushare.model.modes import mode_of


class KubeletAllocations(NamedTuple):
    """Devices that the kubelet has allocated: containers with gpu-mem units, and whole GPUs by pod UID."""

    served: tuple[ServedContainer, ...] = ()
    whole_gpus: Mapping[str, Devices] = MappingProxyType({})


_NODE_UNKNOWN: Final = "the node has not been read yet"


class NodeState:
    """Pods, GPUs and allocations of this node. ``generation`` increases with every change.

    ``shared_gpus`` are the GPUs with their unschedulable ones marked, None until they are known;
    ``whole_gpus`` are the pods that use some of them as whole GPUs, ``device_list`` is how containers get
    theirs. ``node_read`` is whether the labels of the node, and so its mode, are known.
    """

    def __init__(self, node: str, allocations: Iterable[Allocation] = ()) -> None:
        self.allocations = Allocations(node, by_container={each.key: each for each in allocations})
        self.shared_gpus: SharedGpus | None = None
        self.whole_gpus = WholeGpus()
        self.device_list = BY_MOUNTS
        self.generation = 0
        self.node_read = False
        self._offered_unread = False
        self._not_serving_reason: str | None = None
        self._obstacles: dict[str, str] = {}
        self._without_mps: frozenset[str] = frozenset()
        self._synced = False
        self._checkpoint = KubeletAllocations()
        self._readable = False
        self._joined: tuple[KubeletAllocations, Allocations] | None = None
        self._detected: SharedGpus | None = None
        self._node_pods: dict[str, LocalPod] = {}
        self._listed: dict[str, GpuPod] = {}
        self._kubelet_pods: dict[str, GpuPod] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._stale: frozenset[ServedContainer] = frozenset()

    @property
    def not_serving_reason(self) -> str | None:
        """Why this node must not serve gpu-mem, None if it may."""
        known = self.node_read or self._offered_unread
        return self._not_serving_reason if known else _NODE_UNKNOWN

    @property
    def closed_reason(self) -> str | None:
        """Why the node takes no new pods, None if it does.

        Where containers would merely be rejected, the kubelet sees the GPUs nevertheless: after a restart it
        would not restart the pods that run here.
        """
        return self.not_serving_reason or next(iter(self._obstacles.values()), None)

    @property
    def advertised(self) -> SharedGpus | None:
        """The GPUs that the API server gets to see, None while the node must not serve."""
        if self.shared_gpus is None or self.not_serving_reason is not None:
            return None
        return with_closed(self.shared_gpus, self._without_mps)

    @property
    def notices(self) -> tuple[str, ...]:
        """Why healthy GPUs do not take pods, one sentence each."""
        return tuple(notices(self.advertised, self.whole_gpus)) if self.advertised else ()

    def apply_gpus(self, shared_gpus: SharedGpus) -> None:
        """Replace the GPUs of this node."""
        self._detected = shared_gpus
        self._set_gpus(shared_gpus)

    def apply_node(self, node: LocalNode, not_serving_reason: str | None) -> None:
        """Apply the node's labels. ``not_serving_reason`` is why the node must not serve, None if it may."""
        self.node_read, self._not_serving_reason = True, not_serving_reason
        mode, _ = mode_of(node.labels)
        placement = node.labels.get(LABEL_PLACEMENT)
        # Only the exact value counts: anything else must not lift the limits.
        isolated = node.labels.get(LABEL_NO_ISOLATION) != "true"
        self.allocations = replace(self.allocations, mode=mode, placement=placement, isolated=isolated)
        self._notify()

    def apply_obstacle(self, source: str, reason: str | None) -> None:
        """Set why all new containers would be rejected, according to ``source``; None if they are not."""
        before = dict(self._obstacles)
        if reason is None:
            self._obstacles.pop(source, None)
        else:
            self._obstacles[source] = reason
        if self._obstacles != before:
            self._notify()

    def apply_device_list(self, device_list: DeviceList) -> None:
        """Set how containers get their GPUs from now on."""
        self.device_list = device_list
        self._notify()

    def apply_without_mps(self, uuids: frozenset[str]) -> None:
        """Set the GPUs whose containers would be rejected because no MPS control daemon is ready."""
        if uuids != self._without_mps:
            self._without_mps = uuids
            self._notify()

    def apply_contexts(self, context_mib: Mapping[str, int]) -> None:
        """Apply measured sizes of contexts by GPU UUID, in MiB; those of other GPUs stay."""
        known = {**self.allocations.context_mib, **context_mib}
        if known != self.allocations.context_mib:
            self._set_allocations(replace(self.allocations, context_mib=known))

    def offer_without_node(self) -> None:
        """Offer the GPUs before the API server has returned the node, so that running pods can restart.

        A known reason not to serve still applies. New pods wait until the mode of the node is known.
        """
        self._offered_unread = True
        self._notify()

    def apply_pods(self, batch: Iterable[Upserted[LocalPod] | Deleted]) -> None:
        """Apply added, changed and deleted pods, with or without gpu-mem."""
        changes = list(batch)
        for change in changes:
            if isinstance(change, Deleted) or change.value.finished:
                self._node_pods.pop(change.key, None)
            else:
                self._node_pods[change.key] = change.value
        names = {uid: each.full_name for uid, each in by_uid(self._node_pods.values()).items()}
        self._set_whole_gpus(self.whole_gpus.with_pods(names))
        self.apply_gpu_pods(gpu_pod for change in changes if (gpu_pod := _gpu_pod(change)))

    def apply_gpu_pods(self, batch: Iterable[Upserted[GpuPod] | Deleted]) -> None:
        """Apply added, changed and deleted GPU pods. Finished pods are removed."""
        for change in batch:
            found = None if isinstance(change, Deleted) or change.value.pod.finished else change.value
            if found is None:
                self._listed.pop(change.key, None)
                self._kubelet_pods.pop(change.key, None)
            else:
                self._listed[change.key] = found
                self._forget_kubelet_pod(found)
        self._update_gpu_pods()

    def _forget_kubelet_pod(self, listed: GpuPod) -> None:
        """From now on the API server tells what becomes of the pod."""
        known = self._kubelet_pods.get(listed.uid)
        # By name too: any user may claim the UID of a static pod.
        if known and known.pod.full_name == listed.pod.full_name:
            del self._kubelet_pods[listed.uid]

    def _update_gpu_pods(self) -> None:
        gpu_pods = _by_uid(self._kubelet_pods, self._listed.values())
        self._set_allocations(replace(self.allocations, gpu_pods=gpu_pods))
        self._join()

    def mark_synced(self) -> None:
        """The pod list is complete: allocations of pods that are not in it belong to terminated pods."""
        self._synced = True
        self._update_stale()
        self._set_allocations(marked(self.allocations))

    def apply_kubelet_pods(self, pods: Iterable[GpuPod]) -> None:
        """Replace the pods that only the kubelet knows, because the API server does not show them (yet)."""
        listed = {(each.uid, each.pod.full_name) for each in self._listed.values()}
        self._kubelet_pods = {
            each.uid: each
            for each in pods
            if (each.uid, each.pod.full_name) not in listed and not each.pod.finished
        }
        self._update_gpu_pods()

    def add_allocation(self, allocation: Allocation, first_device_id: str | None = None) -> None:
        """Add the allocation of a container, or replace it; see ``with_allocation``."""
        self._set_allocations(with_allocation(self.allocations, allocation, first_device_id))

    def revert_allocation(self, allocation: Allocation, before: Allocation | None) -> None:
        """Undo an allocation that could not be recorded and was not returned; ``before`` applies again."""
        kept = {key: each for key, each in self.allocations.by_container.items() if each is not allocation}
        # While the record was written, the checkpoint may have given this container another one.
        if before and allocation.key not in kept:
            kept[before.key] = before
        self._set_allocations(replace(self.allocations, by_container=kept))

    def apply_checkpoint(self, checkpoint: KubeletAllocations | None) -> None:
        """Join with the kubelet's checkpoint as it is now; None if it cannot be read."""
        self._readable = checkpoint is not None
        if checkpoint is not None and checkpoint != self._checkpoint:
            self._checkpoint = checkpoint
            self.apply_whole_gpus(checkpoint.whole_gpus)
        self._join()

    def _join(self) -> None:
        """Give every allocation to the container that the checkpoint names for it."""
        if not self._readable or self._joined == (self._checkpoint, self.allocations):
            return
        self._set_allocations(join(self.allocations, self._checkpoint.served, self._stale))
        self._update_stale()
        self._joined = self._checkpoint, self.allocations

    def _update_stale(self) -> None:
        """Find the stale entries. Until the pod list is complete, an unknown pod may still exist."""
        if self._synced:
            self._stale = stale_entries(self.allocations, self._checkpoint.served, self._stale)

    def apply_whole_gpus(self, whole_gpus: Mapping[str, Devices]) -> None:
        """Set the devices that other plugins have allocated, by pod UID."""
        self._set_whole_gpus(self.whole_gpus.with_devices(whole_gpus))

    def snapshot(self) -> AllocateSnapshot:
        """The node as it was last read."""
        # Containers of stale entries are left out: a call may be for them.
        named = (entry.key for entry in self._checkpoint.served if entry not in self._stale)
        return AllocateSnapshot(
            self.allocations,
            frozenset(named) if self._readable else remembered(self.allocations),
            self._readable,
            self.node_read,
            self._terminated(),
            frozenset(self._kubelet_pods),
        )

    @property
    def allocated_gpus(self) -> frozenset[str]:
        """UUIDs of the GPUs with allocations."""
        return frozenset(uuid for each in self.allocations.by_container.values() for uuid, _ in each.cards)

    @property
    def uids_by_name(self) -> Mapping[str, str]:
        """UIDs of the pods on this node, by ``namespace/name``."""
        return {each.full_name: each.uid for each in self._node_pods.values()}

    @property
    def is_complete(self) -> bool:
        """Whether all pods of this node are known, and all that the kubelet has allocated to them."""
        return self._synced and self._readable

    def _terminated(self) -> frozenset[str]:
        """Pods with GPUs that are finished or deleted; none until the pod list is complete.

        While the checkpoint cannot be read, pods with an allocation that it has not confirmed are left out:
        another pod may be running with it.
        """
        if not self._synced:
            return frozenset()
        gone = self.allocations.by_pod.keys() - self.allocations.gpu_pods.keys()
        if not self._readable:
            gone = {uid for uid in gone if all(each.confirmed for each in self.allocations.of_pod(uid))}
        return self.whole_gpus.unseen | gone

    def release(self, uids: frozenset[str]) -> None:
        """Release the GPUs of these pods, except pods that exist again."""
        self._set_whole_gpus(self.whole_gpus.with_gone(uids))
        self._set_allocations(retained(self.allocations, frozenset(self.allocations.by_pod.keys() - uids)))
        self._update_stale()

    async def changed(self) -> None:
        """Return after the next change."""
        future = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        try:
            await future
        finally:
            if future in self._waiters:
                self._waiters.remove(future)

    def _set_whole_gpus(self, whole_gpus: WholeGpus) -> None:
        before, self.whole_gpus = self.whole_gpus, whole_gpus
        if self._detected and with_whole_gpus(self._detected, whole_gpus) != self.shared_gpus:
            self._set_gpus(self._detected)
        elif whole_gpus.unseen != before.unseen:
            # The releaser checks whether these pods have terminated.
            self._notify()

    def _set_gpus(self, detected: SharedGpus) -> None:
        self.shared_gpus = with_whole_gpus(detected, self.whole_gpus)
        self.allocations = marked(replace(self.allocations, cards=self.shared_gpus.cards))
        self._notify()

    def _set_allocations(self, allocations: Allocations) -> None:
        if allocations != self.allocations:
            self.allocations = allocations
            self._notify()

    def _notify(self) -> None:
        self.generation += 1
        for future in self._waiters:
            # A waiter that was cancelled removes itself only in its next turn.
            if not future.done():
                future.set_result(None)
        self._waiters.clear()


def _by_uid(kubelet_pods: Mapping[str, GpuPod], listed: Iterable[GpuPod]) -> dict[str, GpuPod]:
    """GPU pods by their UID in the kubelet.

    Any user may write the annotation of mirror pods. A pod that claims the UID of another one counts under
    its own. Of several mirror pods of one UID, that with the most units keeps it, so that no GPU is
    over-committed.
    """
    found = dict(kubelet_pods)
    for each in sorted(listed, key=lambda each: (each.static_uid is not None, -each.units)):
        # A pod with its own UID is sorted before every mirror that claims it.
        owner = found.get(each.uid, each)
        claimed = owner.pod.full_name != each.pod.full_name
        owned = replace(each, static_uid=None) if claimed else each
        found[owned.uid] = owned
    return found


def _gpu_pod(change: Upserted[LocalPod] | Deleted) -> Upserted[GpuPod] | Deleted | None:
    if isinstance(change, Deleted):
        return change
    return Upserted(change.key, change.value.gpu_pod) if change.value.gpu_pod else None
