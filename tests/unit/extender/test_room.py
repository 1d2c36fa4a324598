"""The loop that makes room, with a fake of the API server."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from gpushare.contract import EVENT_EVICTED, EVENT_ROOM, EXTENDER_WAITING_PATH
from gpushare.extender.cluster import ClusterState
from gpushare.extender.eviction_budget import EvictionBudget
from gpushare.extender.evictor import Evictor
from gpushare.extender.lease import LeaseDurations
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.room import RoomMaker, RoomRules
from gpushare.extender.verbs import pod_request_of
from gpushare.extender.waiting_pods import WaitingPods, decoded
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.objects import Pod
from gpushare.ports import KubeEvent
from gpushare.scheduling.fitting import Rejection, place
from tests.support.builders.scheduling import budget, node, pod
from tests.unit.extender.fakes import FakeApi, refused

HIGH = pod("high", 12, priority=1000)


def low(name: str, card: int, **facts: Any) -> Pod:
    """A pod of 8 units that a ReplicaSet replaces."""
    return replace(pod(name, 8, at="n", card=card, **facts), owner="ReplicaSet/low")


class Peers:
    """A FAKE of the other replicas."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, bytes]] = []

    async def post(self, address: str, path: str, body: bytes) -> bytes:
        self.told.append((address, path, body))
        return b"{}"


class Case:
    """One node with two GPUs of 14 units, a pod of 8 on each, and a pod of 12 that waits."""

    def __init__(self, *pods: Pod, dry_run: bool = False, most: int = 10) -> None:
        self.now = 0.0
        self.leads = True
        self.holder = SimpleNamespace(address="10.0.0.2:12345")
        self.api, self.cluster, self.peers = FakeApi(), ClusterState(), Peers()
        self.waiting = WaitingPods(lambda: self.now)
        self.metrics = ExtenderMetrics()
        self.events: list[KubeEvent] = []
        evictor = Evictor(
            self.cluster,
            self.api,
            announce=self._announce,
            fence=lambda: None if self.leads else "lost",
            durations=LeaseDurations(),
            clock=lambda: self.now,
        )
        self.room = RoomMaker(
            self.cluster,
            self.waiting,
            evictor,
            rules=RoomRules(dry_run=dry_run, after_s=60, budget=EvictionBudget(most, most, lambda: self.now)),
            leadership=cast("Any", self),
            peers=cast("Any", self.peers),
            metrics=self.metrics,
            record_event=self.events.append,
            clock=lambda: self.now,
        )
        self.cluster.change_nodes([Upserted("n", node("n", 14, 14))])
        self.shows(*(pods or (low("a", 0), low("b", 1, priority=5))), HIGH)

    async def _announce(self) -> None:
        pass

    def shows(self, *pods: Pod) -> None:
        """The watch delivers these pods."""
        self.cluster.change_pods([Upserted(each.uid, each) for each in pods])

    def ends(self, uid: str) -> None:
        self.cluster.change_pods([Deleted(uid)])

    def refused(self, who: Pod = HIGH) -> None:
        """Filter refuses the pod on the node."""
        self.waiting.note(who.uid, ["n"], self.cluster.ledger)

    async def after(self, seconds: float) -> None:
        """A round of the loop after so many seconds."""
        self.now += seconds
        await self.room.make_room()

    def may_bind(self, who: Pod) -> bool:
        request = replace(pod_request_of(who), binding=True)
        return not isinstance(place(self.cluster.ledger.books["n"], request), Rejection)

    def counted(self) -> Counter[str]:
        found = self.metrics.registry.collect()
        samples = [each for family in found for each in family.samples]
        mine = [each for each in samples if each.name == "gpushare_extender_evictions_total"]
        return Counter({each.labels["outcome"]: int(each.value) for each in mine})

    def texts(self, reason: str) -> list[str]:
        return [each.text for each in self.events if each.reason == reason]


async def test_the_cheapest_pod_is_evicted_after_the_grace_period() -> None:
    case = Case()
    case.refused()
    await case.after(59)
    assert case.api.evictions == []
    await case.after(1)
    assert case.api.evictions == ["a"]
    assert case.counted() == {"evicted": 1}
    assert case.texts(EVENT_EVICTED) == [
        (
            "evicted from node n to make room on its GPUs for pod high of priority 1000; the priority of "
            "this pod is 0"
        )
    ]
    assert case.texts(EVENT_ROOM) == ["evicted pod a of lower priority on node n to make room for this pod"]


async def test_nothing_more_is_evicted_while_the_victim_terminates() -> None:
    case = Case()
    case.refused()
    await case.after(60)
    for _ in range(5):
        case.refused()
        await case.after(60)
    assert case.api.evictions == ["a"]


async def test_the_room_is_held_until_the_pod_is_bound() -> None:
    case = Case()
    case.refused()
    await case.after(60)
    case.ends("a")
    lower, equal, higher = (
        replace(pod(name, 9), priority=p) for name, p in (("x", 9), ("y", 1000), ("z", 2000))
    )
    assert [case.may_bind(each) for each in (HIGH, lower, equal, higher)] == [True, False, False, True]
    case.shows(replace(HIGH, node="n", claim=((0, HIGH.demand.per_card),)))  # type: ignore[union-attr]
    case.ends("b")
    assert case.may_bind(lower)


async def test_a_new_leader_finds_the_room_of_the_last_one() -> None:
    """The victim terminates, so nothing is evicted, and its room is held."""
    case = Case(low("a", 0, terminating=True), low("b", 1))
    case.refused()
    await case.after(60)
    assert case.api.evictions == []
    case.ends("a")
    assert not case.may_bind(pod("x", 9))


async def test_room_that_the_scheduler_does_not_use_is_given_up() -> None:
    case = Case()
    case.refused()
    await case.after(60)
    case.ends("a")
    await case.after(1)
    await case.after(61)
    assert case.may_bind(pod("x", 9))
    assert "the scheduler does not use it" in case.texts(EVENT_ROOM)[-1]
    case.shows(low("c", 0))
    case.refused()
    await case.after(60)
    assert case.api.evictions == ["a"]


async def test_what_the_ledger_loses_is_not_held() -> None:
    case = Case(low("a", 0), low("b", 1, priority=1000))
    case.refused()
    await case.after(60)
    case.ends("a")
    case.shows(low("urgent", 0, priority=2000))
    await case.after(1)
    assert case.cluster.held_node("high") is None


async def test_names_of_pods_in_other_namespaces_are_not_shown() -> None:
    case = Case(replace(low("secret", 0), namespace="other"), low("b", 1, priority=5))
    case.refused()
    await case.after(60)
    assert "for a pod of another namespace of priority 1000" in case.texts(EVENT_EVICTED)[0]
    assert "high" not in case.texts(EVENT_EVICTED)[0]
    assert "evicted a pod of another namespace of lower priority on node n" in case.texts(EVENT_ROOM)[0]
    assert "secret" not in case.texts(EVENT_ROOM)[0]


async def test_a_dry_run_only_says_what_it_would_do_once() -> None:
    case = Case(dry_run=True)
    for _ in range(3):
        case.refused()
        await case.after(60)
    assert case.api.evictions == []
    assert case.counted() == {"dry_run": 1}
    assert case.texts(EVENT_ROOM) == ["dry run: would evict pod a of lower priority on node n"]


async def test_the_rate_of_evictions_is_limited() -> None:
    case = Case(low("a", 0), low("b", 1), most=1)
    other = pod("other", 12, priority=900)
    case.shows(other)
    for who in (HIGH, other):
        case.refused(who)
    await case.after(60)
    assert case.api.evictions == ["a"]
    assert case.counted() == {"evicted": 1, "rate": 1}
    assert "at most 1 pods are evicted in an hour" in case.texts(EVENT_ROOM)[-1]


async def test_a_budget_that_refuses_makes_the_pod_wait_and_try_again() -> None:
    case = Case()
    case.api.eviction_errors.append(refused(429))
    case.refused()
    await case.after(60)
    assert case.counted() == {"pdb": 1}
    await case.after(5)
    assert case.api.evictions == ["a"]
    await case.after(6)
    assert case.api.evictions == ["a", "a"]
    assert case.counted() == {"pdb": 1, "evicted": 1}


async def test_pods_with_a_budget_are_evicted_first() -> None:
    """If the API server refuses, no other pod was evicted in vain."""
    pods = [
        replace(pod(name, 7, at="n", card=0, labels={"app": name}), owner="ReplicaSet/x") for name in "ab"
    ]
    case = Case(*pods, low("c", 1, priority=9000))
    case.cluster.change_budgets([Upserted("x", budget(allowed=1, app="b"))])
    case.api.eviction_errors.append(refused(429))
    case.refused()
    await case.after(60)
    assert case.api.evictions == ["b"]


async def test_a_pod_without_a_controller_stays() -> None:
    case = Case(pod("bare", 8, at="n", card=0), low("b", 1, priority=1000))
    case.refused()
    await case.after(60)
    assert case.api.evictions == []
    assert case.counted() == {"priority": 1}


async def test_pods_that_may_not_preempt_or_that_the_scheduler_helps_get_nothing() -> None:
    for who in (replace(HIGH, preempts=False), replace(HIGH, nominated="n")):
        case = Case()
        case.shows(who)
        case.refused()
        await case.after(60)
        assert case.api.evictions == []


async def test_nothing_is_evicted_once_the_lease_is_lost() -> None:
    case = Case()
    case.refused()
    case.leads = False
    await case.after(60)
    assert case.api.evictions == []


async def test_the_first_turn_is_that_of_the_highest_priority() -> None:
    case = Case(low("a", 0), low("b", 1, priority=950))
    other = pod("other", 12, priority=900)
    case.shows(other)
    for who in (other, HIGH):
        case.refused(who)
    await case.after(60)
    assert case.api.evictions == ["a"]
    assert case.cluster.held_node("high") == "n"
    assert case.cluster.held_node("other") is None


async def test_a_follower_tells_the_leader_which_pods_wait() -> None:
    case = Case()
    case.leads = False
    case.refused()
    await case.room.tell_leader()
    ((address, path, body),) = case.peers.told
    assert (address, path) == ("10.0.0.2:12345", EXTENDER_WAITING_PATH)
    assert [(each.uid, each.nodes) for each in decoded(body)] == [("high", ("n",))]
    await case.room.tell_leader()
    assert len(case.peers.told) == 1


async def test_a_replica_that_leads_no_longer_holds_no_room() -> None:
    case = Case()
    case.refused()
    await case.after(60)
    case.ends("a")
    case.leads = False
    await case.room.tell_leader()
    assert case.may_bind(pod("x", 9))
