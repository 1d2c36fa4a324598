"""What to evict so that pods that wait fit: first by moves, then by evictions of lower priority. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Final

from msgspec import structs

from gpushare.model.demand import Demand
from gpushare.model.disruption import Budgets, DisruptionBudget
from gpushare.model.objects import Pod
from gpushare.overview.explain.obstacles import NodeChecks
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.overview.occupancy import PodLoad, load_of
from gpushare.overview.storage import Storage
from gpushare.overview.surroundings import surroundings_of
from gpushare.scheduling.book import Book, without
from gpushare.scheduling.fitting import PodRequest
from gpushare.scheduling.room.evictions import Room, comes, room_steps
from gpushare.scheduling.room.moves import Move, compaction_steps, with_pod
from gpushare.scheduling.room.rules import may_be_evicted, may_be_moved
from gpushare.scheduling.steps import result_of

GROUPS: Final = "pods of a pod group are placed together, and not planned here"


@dataclass(frozen=True, slots=True)
class Known:
    """A pod as the ledger sees it, and its whole spec."""

    pod: Pod
    details: ClusterPod


@dataclass(frozen=True)
class ClusterFacts:
    """What a plan is made from. ``storage`` is that of the waiting pods with claims, by UID."""

    books: Mapping[str, Book]
    nodes: Mapping[str, ClusterNode]
    pods: Mapping[str, Known]
    others: tuple[PodLoad, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    storage: Mapping[str, Storage | None] = field(default_factory=dict)

    @cached_property
    def loads(self) -> dict[str, PodLoad]:
        """What each bound pod with GPU memory takes."""
        found = ((uid, load_of(each.details)) for uid, each in self.pods.items())
        return {uid: load for uid, load in found if load}

    @cached_property
    def covering(self) -> Budgets:
        """The disruption budgets, indexed."""
        return Budgets(self.budgets)


@dataclass(frozen=True, slots=True)
class Step:
    """One pod to evict. ``target`` is a node where another one fits, None if it will wait."""

    pod: Pod
    node: str
    target: str | None


@dataclass(frozen=True, slots=True)
class Help:
    """The steps after which a waiting pod fits on ``node``; ``reason`` says why there are none."""

    pod: Pod
    node: str | None = None
    steps: tuple[Step, ...] = ()
    reason: str = ""


def planned(facts: ClusterFacts) -> list[Help]:
    """The help for each waiting pod, the highest priority first; each plan begins where the last one ends."""
    helped = []
    for known in sorted(_waiting(facts), key=lambda each: (-each.pod.priority, each.pod.created)):
        found, facts = _helped(facts, known)
        helped.append(found)
    return helped


def _waiting(facts: ClusterFacts) -> Iterator[Known]:
    for each in facts.pods.values():
        if (
            each.pod.is_considered
            and each.pod.unschedulable is not None
            and isinstance(each.pod.demand, Demand)
        ):
            yield each


def _helped(facts: ClusterFacts, known: Known) -> tuple[Help, ClusterFacts]:
    pod, demand = known.pod, known.pod.demand
    assert isinstance(demand, Demand)  # noqa: S101 - waiting pods have one
    if known.details.group:
        return Help(pod, reason=GROUPS), facts
    request = PodRequest(pod.uid, demand, pod.priority, pod.placement)
    checks = _checks(facts, known)
    nodes = [name for name in facts.books if not checks.obstacles(facts.nodes[name])]
    if not nodes:
        return Help(pod, reason="other conditions than GPUs keep it off every node: see explain"), facts
    if ready := next((name for name in nodes if comes(facts.books[name], request)), None):
        return Help(
            pod, ready, reason=f"it fits on node {ready} now, or once terminating pods are gone"
        ), facts
    moved = _by_moves(facts, known, request, nodes)
    if moved:
        return moved
    return _by_evictions(facts, known, request, nodes)


def _checks(facts: ClusterFacts, known: Known, moves: tuple[Move, ...] = ()) -> NodeChecks:
    """What decides about the pod besides GPUs, after these moves: pods that leave still count."""
    loads = (*facts.loads.values(), *facts.others, *_loads_after(facts, moves))
    around = replace(surroundings_of(loads, ()), storage=facts.storage.get(known.pod.uid))
    return NodeChecks(known.details, around, facts.nodes)


def _by_moves(
    facts: ClusterFacts, known: Known, request: PodRequest, nodes: list[str]
) -> tuple[Help, ClusterFacts] | None:
    movable = {
        uid: PodRequest(uid, each.pod.demand, each.pod.priority, each.pod.placement)
        for uid, each in facts.pods.items()
        if _may_be_moved(each) and isinstance(each.pod.demand, Demand)
    }

    @lru_cache(maxsize=1)
    def checks(uid: str, moves: tuple[Move, ...]) -> NodeChecks:
        return _checks(facts, facts.pods[uid], moves)

    def admits(uid: str, node: str, moves: tuple[Move, ...]) -> bool:
        return not checks(uid, moves).obstacles(facts.nodes[node])

    found = result_of(
        compaction_steps(facts.books, request, nodes, movable, admits, lambda uid: _budgets_of(facts, uid))
    )
    if found is None:
        return None
    steps = tuple(Step(facts.pods[move.uid].pod, found.node, move.target) for move in found.moves)
    arrived = (*_loads_after(facts, found.moves), *_load_on(known, found.node))
    return Help(known.pod, found.node, steps), _after(facts, steps, found.books, arrived)


def _may_be_moved(known: Known) -> bool:
    """A volume or a group may tie a pod to its node in ways that are not read here."""
    return may_be_moved(known.pod) and not known.details.claims and not known.details.group


def _by_evictions(
    facts: ClusterFacts, known: Known, request: PodRequest, nodes: list[str]
) -> tuple[Help, ClusterFacts]:
    if not known.pod.preempts:
        return Help(
            known.pod, reason="no pods can be moved for it, and its priority class never preempts"
        ), facts
    found = result_of(
        room_steps(
            facts.books,
            request,
            nodes,
            lambda uid: uid in facts.pods and may_be_evicted(facts.pods[uid].pod),
            lambda uid: _budgets_of(facts, uid),
        )
    )
    if not isinstance(found, Room):
        reason = "no pods can be moved for it, and none of lower priority may be evicted or would be enough"
        return Help(known.pod, reason=reason), facts
    steps = tuple(Step(facts.pods[uid].pod, found.node, None) for uid in found.victims)
    left = without(facts.books[found.node], frozenset(found.victims))
    books = with_pod({**facts.books, found.node: left}, found.node, request)
    return Help(known.pod, found.node, steps), _after(facts, steps, books, _load_on(known, found.node))


def _budgets_of(facts: ClusterFacts, uid: str) -> tuple[DisruptionBudget, ...]:
    return facts.covering.covering(facts.pods[uid].pod) if uid in facts.pods else ()


def _loads_after(facts: ClusterFacts, moves: Iterable[Move]) -> tuple[PodLoad, ...]:
    return tuple(replace(facts.loads[move.uid], node=move.target) for move in moves)


def _load_on(known: Known, node: str) -> tuple[PodLoad, ...]:
    """The load of a waiting pod once it is on the node."""
    details = structs.replace(known.details, spec=structs.replace(known.details.spec, node_name=node))
    load = load_of(details)
    return (load,) if load else ()


def _after(
    facts: ClusterFacts, steps: Iterable[Step], books: Mapping[str, Book], arrived: tuple[PodLoad, ...]
) -> ClusterFacts:
    """What the next plan is made from. A pod is evicted once, and uses its disruption budgets."""
    gone = {step.pod.uid for step in steps}
    used = Counter((b.namespace, b.name) for uid in gone for b in _budgets_of(facts, uid))
    budgets = tuple(replace(b, allowed=b.allowed - used[b.namespace, b.name]) for b in facts.budgets)
    pods = {uid: each for uid, each in facts.pods.items() if uid not in gone}
    return replace(facts, books=books, pods=pods, budgets=budgets, others=(*facts.others, *arrived))
