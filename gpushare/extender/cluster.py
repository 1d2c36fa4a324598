"""The live state: the ledger and its pods, updated by watches and by the extender's own binds.

All calls come from one event loop and none of them awaits while it changes state, so no lock is needed.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from gpushare.extender.backoff import PERIOD_S, RejectionBackoff, Wait
from gpushare.extender.group_plans import GroupPlans
from gpushare.extender.seal import Sealer
from gpushare.model.cards import parse_indices
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.disruption import Budgets, DisruptionBudget
from gpushare.model.objects import Node, Pod
from gpushare.model.resources import Load
from gpushare.runtime.fairness import TimeSlices
from gpushare.runtime.times import seconds_since
from gpushare.scheduling.events import (
    LedgerEvent,
    LoadObserved,
    NodeDeleted,
    NodeObserved,
    PodDeleted,
    PodObserved,
    UnhealthyObserved,
)
from gpushare.scheduling.ledger import EMPTY_LEDGER, Ledger, apply


class ClusterState:
    """The owner of the ledger."""

    def __init__(self, follow: Callable[[Ledger], None] | None = None) -> None:
        """``follow`` is called with each next ledger."""
        self.ledger: Ledger = EMPTY_LEDGER
        self._follow = follow
        self.pods: dict[str, Pod] = {}
        self.sealer = Sealer()
        self.backoff = RejectionBackoff()
        self.group_plans = GroupPlans()
        self.slices = TimeSlices()
        """For all work in slices."""
        self._budgets: dict[str, DisruptionBudget] = {}
        self._budget_index: Budgets | None = Budgets()
        self._unproven: dict[str, Pod] = {}
        self._held: dict[str, str] = {}
        self._changed: dict[str, set[asyncio.Future[None]]] = {}
        self._next: asyncio.Future[None] | None = None

    def apply(self, *events: LedgerEvent) -> None:
        """Replace the ledger with the one after the events."""
        before, self.ledger = self.ledger, apply(self.ledger, *events)
        if self._follow:
            self._follow(self.ledger)
        if self._next is not None and self.ledger.books is not before.books:
            self._next.set_result(None)
            self._next = None

    async def next_ledger(self) -> None:
        """Return when the next events have changed a book."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        # Shared by all that wait: one that gives up must not cancel it for the others.
        await asyncio.shield(self._next)

    def known_pods(self) -> set[str]:
        """The UIDs of all pods that were read or have a reservation."""
        return {*self.pods, *self.ledger.home}

    def see_pod(self, pod: Pod) -> None:
        """Apply a pod that was read outside the watch."""
        self.apply(PodObserved(self._keep(pod)))

    def hold_room(self, pod: Pod, node: str | None) -> None:
        """Keep units of the node free for a pod that waits; None: no longer.

        The pod is a nominee of the node in the ledger until it is placed or gone.
        """
        if node is None:
            self._held.pop(pod.uid, None)
        else:
            self._held[pod.uid] = node
        if known := self.pods.get(pod.uid):
            self.apply(PodObserved(self._with_room(known)))

    def note_eviction(self, uid: str) -> None:
        """The pod terminates, which the watch is about to show, unless it has shown its end."""
        if known := self.pods.get(uid):
            self.pods[uid] = replace(known, terminating=True)
            self.apply(PodObserved(self.pods[uid]))

    def held_node(self, uid: str) -> str | None:
        """The node where room is held for a pod; None if there is none."""
        return self._held.get(uid)

    def change_sealer_steps(self, sealer: Sealer) -> Generator[None, None, None]:
        """Check pods with this key from now on, and again those whose claim the last key did not prove.

        Yields after each pod, because they may be all pods of a large cluster. Meanwhile pods may change.
        """
        self.sealer = sealer
        # A copy: pods come and go between two steps.
        for uid in list(self._unproven):
            self._check_again(uid)
            yield

    def _check_again(self, uid: str) -> None:
        pod = self._unproven.get(uid) or self.pods.get(uid)
        if pod is None:
            return
        checked = self._keep(pod)
        reserved = self.ledger.reservation(uid)
        if checked.claim and reserved and reserved[1].claim is None:
            # A reservation keeps its first GPUs, so it is replaced.
            load = self.ledger.loads.get(uid)
            again = [LoadObserved(uid, load)] if load else []
            self.apply(PodDeleted(uid), *again, PodObserved(checked))

    def _keep(self, pod: Pod) -> Pod:
        """Store a pod, without a claim that has no valid seal."""
        checked = self.sealer.checked(pod)
        self.pods[pod.uid] = checked
        self.group_plans.see(checked)
        if checked is pod:
            self._unproven.pop(pod.uid, None)
        else:
            self._unproven[pod.uid] = pod
        return self._with_room(checked) if self._held else checked

    def _with_room(self, pod: Pod) -> Pod:
        """The pod as the ledger sees it. A nomination by kube-scheduler comes first."""
        node = self._held.get(pod.uid)
        if node is None or pod.nominated:
            return pod
        if not pod.is_considered:
            del self._held[pod.uid]
            return pod
        return replace(pod, nominated=node, held=True)

    def change_loads(self, loads: Mapping[str, Load | None]) -> None:
        """Apply the CPU and memory of pods by UID; None of a pod that has finished."""
        events = [
            PodDeleted(uid) if load is None else LoadObserved(uid, load)
            for uid, load in loads.items()
            # Most changes of a pod are none of its load.
            if load != self.ledger.loads.get(uid)
        ]
        if events:
            self.apply(*events)

    def change_pods(self, batch: Iterable[Upserted[Pod] | Deleted]) -> list[Pod]:
        """Apply a batch of the pod watch; returns the pods that were added or changed."""
        events: list[LedgerEvent] = []
        changed: list[Pod] = []
        for change in batch:
            if isinstance(change, Deleted):
                self.pods.pop(change.key, None)
                self._unproven.pop(change.key, None)
                self._held.pop(change.key, None)
                self.group_plans.forget(change.key)
                events.append(PodDeleted(change.key))
            else:
                self._note_rejection(change.value)
                pod = self._keep(change.value)
                changed.append(pod)
                events.append(PodObserved(pod))
            # Those that wait run only after the events below are applied.
            self._wake(change.key)
        if events:
            self.apply(*events)
        return changed

    def _note_rejection(self, pod: Pod) -> None:
        """Remember that a kubelet has rejected the pod; of those in a list, only recent ones."""
        if pod.rejected is None or not pod.workload:
            return
        known = self.pods.get(pod.uid)
        # A list after the start has pods that were rejected long ago.
        if known is None and seconds_since(pod.rejected_at) > PERIOD_S:
            return
        if known is None or known.rejected is None:
            self.backoff.add(pod, time.monotonic())

    def wait_of(self, pod: Pod) -> Wait | None:
        """Which nodes the pod has to wait for, because kubelets have rejected others of its workload."""
        return self.backoff.wait_of(pod, time.monotonic())

    def change_nodes(self, batch: Iterable[Upserted[Node] | Deleted]) -> None:
        """Apply a batch of the node watch."""
        batch = list(batch)
        for change in batch:
            self._note_opening(change)
        self.apply(*(NodeDeleted(c.key) if isinstance(c, Deleted) else NodeObserved(c.value) for c in batch))

    def _note_opening(self, change: Upserted[Node] | Deleted) -> None:
        """Forget what a node has rejected before it began to take pods."""
        book = self.ledger.books.get(change.key)
        if isinstance(change, Upserted) and book and book.node and change.value.opened != book.node.opened:
            self.backoff.forget(change.key)

    def change_unhealthy(self, batch: Iterable[Upserted[str] | Deleted]) -> dict[str, tuple[str, ...]]:
        """Apply a batch of the ConfigMap watch; returns the invalid entries by node."""
        invalid_by_node = {}
        for change in batch:
            indices, invalid = (
                (frozenset[int](), ()) if isinstance(change, Deleted) else parse_indices(change.value)
            )
            self.apply(UnhealthyObserved(change.key, indices))
            if invalid:
                invalid_by_node[change.key] = invalid
        return invalid_by_node

    def change_budgets(self, batch: Iterable[Upserted[DisruptionBudget] | Deleted]) -> None:
        """Apply a batch of the watch of disruption budgets."""
        for change in batch:
            if isinstance(change, Deleted):
                self._budgets.pop(change.key, None)
            else:
                self._budgets[change.key] = change.value
        self._budget_index = None

    def budgets_of(self, uid: str) -> tuple[DisruptionBudget, ...]:
        """The disruption budgets that the eviction of a pod uses; none if pod or budgets are unknown."""
        if self._budget_index is None:
            self._budget_index = Budgets(self._budgets.values())
        pod = self.pods.get(uid)
        return self._budget_index.covering(pod) if pod else ()

    async def next_change(self, uid: str) -> None:
        """Return when the watch next delivers a change of the pod."""
        with self.change_of(uid) as change:
            await change

    @contextmanager
    def change_of(self, uid: str) -> Iterator[asyncio.Future[None]]:
        """A future that is done once the watch has delivered a change of the pod inside the context."""
        future = asyncio.get_running_loop().create_future()
        self._changed.setdefault(uid, set()).add(future)
        try:
            yield future
        finally:
            waiting = self._changed.get(uid, set())
            waiting.discard(future)
            if not waiting:
                self._changed.pop(uid, None)

    def _wake(self, uid: str) -> None:
        for future in self._changed.pop(uid, ()):
            if not future.done():
                future.set_result(None)
