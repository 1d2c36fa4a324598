"""Makes room for pods that wait although nodes have enough units in all: a loop of the leader.

Room that was made, or that terminating pods are about to leave, is held for its pod: the pod is a nominee of
the node in the ledger, which the leader's bind respects. It is no nomination in the status of the pod:
kube-scheduler owns that field, others may set it from Kubernetes 1.35 on only (KEP-5278), and the extender
would need the right to write the status of every pod. A new leader finds the same room again, because
terminating pods count before any eviction.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from gpushare.adapters.extender_peers import Peers
from gpushare.contract import EVENT_EVICTED, EVENT_ROOM, EXTENDER_WAITING_PATH
from gpushare.errors import ApiError
from gpushare.extender.cluster import ClusterState
from gpushare.extender.eviction_budget import EvictionBudget
from gpushare.extender.evictor import Evicted, Evictor
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.only_replica import Leader
from gpushare.extender.verbs import pod_request_of
from gpushare.extender.waiting_pods import WaitingPods
from gpushare.model.demand import Malformed
from gpushare.model.objects import Pod
from gpushare.ports import KubeEvent, pod_event
from gpushare.scheduling.book import Book
from gpushare.scheduling.fitting import fits
from gpushare.scheduling.room.evictions import NoRoom, Room, comes, is_needed, room_steps
from gpushare.scheduling.room.rules import may_be_evicted

log = structlog.get_logger()

_INTERVAL_S: Final = 1.0
_AGAIN_S: Final = 10.0
"""Until the next plan for a pod for which there was no room."""
_IDLE_PER_WORK: Final = 9.0
"""Plans take at most a tenth of the time."""
_UNUSED_S: Final = 60.0
"""So long the scheduler may take to use room that is free; then something else keeps the pod off the node."""
_NOT_AGAIN_S: Final = 1800.0
"""So long no room is made for the pod on such a node."""
_REFUSALS: Final = {
    NoRoom.BUDGETS: "disruption budgets forbid the evictions that would make room for this pod now",
    NoRoom.PRIORITY: "no eviction of pods of lower priority would make room for this pod",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRules:
    """Whether evictions are only announced, how many seconds a pod waits before, and how many are allowed."""

    dry_run: bool
    after_s: float
    budget: EvictionBudget


@dataclass(slots=True)
class _Held:
    """Room that is held for a pod; ``free_since`` is when the pod began to fit there, None if it does not."""

    pod: Pod
    node: str
    free_since: float | None = None


class RoomMaker:
    """Acts only while this replica leads; a follower tells the leader which pods wait."""

    def __init__(  # noqa: PLR0913 - the parts of the extender that it uses
        self,
        cluster: ClusterState,
        waiting: WaitingPods,
        evictor: Evictor,
        *,
        rules: RoomRules,
        leadership: Leader,
        peers: Peers,
        metrics: ExtenderMetrics,
        record_event: Callable[[KubeEvent], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._waiting = waiting
        self._evictor = evictor
        self._rules = rules
        self._budget = rules.budget
        self._leadership = leadership
        self._peers = peers
        self._metrics = metrics
        self._record_event = record_event
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._not_before: dict[str, float] = {}
        self._useless: dict[tuple[str, str], float] = {}
        self._refused: dict[str, str] = {}

    async def run(self) -> None:
        """Make room until cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL_S)
            if self._leadership.leads:
                await self.make_room()
            else:
                await self.tell_leader()

    async def make_room(self) -> None:
        """One round: check what is held, then help the pods that have waited long enough, in their turn."""
        self._forget_old()
        for held in list(self._held.values()):
            self._check(held)
        waiting = self._waiting.longer_than(self._rules.after_s)
        pods = [pod for uid in waiting if (pod := self._helped(uid))]
        for pod in sorted(pods, key=lambda each: -each.priority):
            if not self._leadership.leads:
                return
            await self._help(pod, waiting[pod.uid])

    async def tell_leader(self) -> None:
        """Pass on which pods wait, and give up the room of an earlier time as leader."""
        for held in list(self._held.values()):
            self._give_up(held)
        holder = self._leadership.holder
        told = self._waiting.untold() if holder and holder.address else None
        if holder is None or told is None:
            return
        try:
            await self._peers.post(holder.address, EXTENDER_WAITING_PATH, told)
        except ApiError as error:
            log.info("leader_not_told", reason=str(error))

    def _forget_old(self) -> None:
        now = self._clock()
        self._not_before = {uid: at for uid, at in self._not_before.items() if at > now}
        self._useless = {key: at for key, at in self._useless.items() if at > now}
        self._refused = {uid: why for uid, why in self._refused.items() if uid in self._cluster.pods}

    def _helped(self, uid: str) -> Pod | None:
        """The pod, if room may be made for it now; kube-scheduler makes room for those that it nominates."""
        pod = self._cluster.pods.get(uid)
        if pod is None or not pod.is_considered or self._cluster.ledger.reservation(uid):
            self._waiting.forget(uid)
            return None
        skipped = pod.nominated or not pod.preempts or isinstance(pod.demand, Malformed)
        return None if skipped or uid in self._held or uid in self._not_before else pod

    # --- room that is held ------------------------------------------------------------------------

    def _hold(self, pod: Pod, node: str) -> None:
        self._held[pod.uid] = _Held(pod, node)
        self._cluster.hold_room(pod, node)

    def _give_up(self, held: _Held) -> None:
        self._held.pop(held.pod.uid, None)
        self._cluster.hold_room(held.pod, None)

    def _check(self, held: _Held) -> None:
        """Give up room that is used, gone, or of no use."""
        book = self._cluster.ledger.books.get(held.node)
        request = pod_request_of(held.pod)
        if self._cluster.held_node(held.pod.uid) is None or book is None or not comes(book, request):
            self._give_up(held)
        elif not fits(book, request):
            held.free_since = None
        elif held.free_since is None:
            held.free_since = self._clock()
        elif self._clock() - held.free_since > _UNUSED_S:
            self._give_up(held)
            self._useless[held.pod.uid, held.node] = self._clock() + _NOT_AGAIN_S
            text = (
                f"node {held.node} has room for this pod, and the scheduler does not use it: see its events"
            )
            self._record_event(pod_event(held.pod, EVENT_ROOM, text, warning=True))

    # --- evictions --------------------------------------------------------------------------------

    async def _help(self, pod: Pod, nodes: Collection[str]) -> None:
        left = [name for name in nodes if (pod.uid, name) not in self._useless]
        if not left:
            return
        steps = room_steps(
            self._cluster.ledger.books, pod_request_of(pod), left, self._may_evict, self._cluster.budgets_of
        )
        found = await self._cluster.slices.run(steps, idle_per_work=_IDLE_PER_WORK)
        if self._helped(pod.uid) is None:
            return
        if isinstance(found, NoRoom):
            self._refuse(pod, found, _REFUSALS[found])
        elif not found.victims:
            self._hold(pod, found.node)
        else:
            await self._carry_out(pod, found)

    def _may_evict(self, uid: str) -> bool:
        victim = self._cluster.pods.get(uid)
        return victim is not None and may_be_evicted(victim)

    def _refuse(self, pod: Pod, outcome: str, text: str) -> None:
        """Say once why there is no room, and plan again later."""
        self._not_before[pod.uid] = self._clock() + _AGAIN_S
        if self._refused.get(pod.uid) != outcome:
            self._refused[pod.uid] = outcome
            self._metrics.evictions.labels(outcome).inc()
            self._record_event(pod_event(pod, EVENT_ROOM, text, warning=True))

    async def _carry_out(self, pod: Pod, room: Room) -> None:
        victims = [self._cluster.pods[uid] for uid in room.victims if uid in self._cluster.pods]
        if refusal := self._budget.refusal(victim.namespace for victim in victims):
            self._refuse(pod, "rate", f"no room is made for this pod now: {refusal}")
            return
        if self._rules.dry_run:
            self._refuse(pod, "dry_run", f"dry run: would evict {_spelled_out(pod, victims, room.node)}")
            return
        # First those that a budget may protect after all: nothing is lost then.
        victims.sort(key=lambda victim: not self._cluster.budgets_of(victim.uid))
        evicted = await self._evict(pod, room, victims)
        if evicted:
            text = f"evicted {_spelled_out(pod, evicted, room.node)} to make room for this pod"
            self._record_event(pod_event(pod, EVENT_ROOM, text))
        if len(evicted) < len(victims):
            self._not_before[pod.uid] = self._clock() + _AGAIN_S

    async def _evict(self, pod: Pod, room: Room, victims: Sequence[Pod]) -> list[Pod]:
        """Evict one after the other while it helps; returns those that were evicted."""
        self._hold(pod, room.node)
        evicted: list[Pod] = []
        for number, victim in enumerate(victims):
            left = frozenset(each.uid for each in victims[number:])
            book = self._cluster.ledger.books.get(room.node)
            if book is None or not self._is_needed(pod, book, left):
                break
            outcome = await self._evictor.evict(victim)
            if outcome not in (Evicted.NOT_LEADING, Evicted.GONE):
                self._metrics.evictions.labels(outcome).inc()
            if outcome is Evicted.DONE:
                evicted.append(victim)
                self._budget.take(victim.namespace)
                self._record_event(pod_event(victim, EVENT_EVICTED, _reason(pod, victim, room.node)))
                log.info("evicted", pod=victim.full_name, node=room.node, beneficiary=pod.full_name)
            elif outcome is not Evicted.GONE:
                break
        return evicted

    def _is_needed(self, pod: Pod, book: Book, victims: frozenset[str]) -> bool:
        """Whether the pod still waits, and the evictions help: the ledger may have changed meanwhile."""
        known = self._cluster.pods.get(pod.uid)
        waits = known is not None and known.is_considered and not self._cluster.ledger.reservation(pod.uid)
        return waits and is_needed(book, pod_request_of(pod), victims)


def _reason(pod: Pod, victim: Pod, node: str) -> str:
    """Why a pod was evicted. The names of pods in other namespaces are not for its readers."""
    whom = f"pod {pod.name}" if pod.namespace == victim.namespace else "a pod of another namespace"
    return (
        f"evicted from node {node} to make room on its GPUs for {whom} of priority {pod.priority}; "
        f"the priority of this pod is {victim.priority}"
    )


def _spelled_out(pod: Pod, victims: Sequence[Pod], node: str) -> str:
    """The pods of lower priority on a node, for the readers of a pod."""
    own = [f"pod {victim.name}" for victim in victims if victim.namespace == pod.namespace]
    match len(victims) - len(own):
        case 0:
            others = []
        case 1:
            others = ["a pod of another namespace"]
        case count:
            others = [f"{count} pods of other namespaces"]
    return f"{' and '.join([*own, *others])} of lower priority on node {node}"
