"""One eviction: fenced as a bind, and its outcome."""

import asyncio
from collections.abc import Callable

import pytest

from gpushare.errors import ApiError
from gpushare.extender.cluster import ClusterState
from gpushare.extender.evictor import Evicted, Evictor
from gpushare.extender.lease import LeaseDurations
from gpushare.model.changes import Deleted, Upserted
from tests.support.builders.scheduling import node, pod
from tests.unit.extender.fakes import FakeApi, refused, silence

VICTIM = pod("low", 8, at="n", card=0)


class Case:
    """A cluster with one pod, and the evictor of a replica that leads."""

    def __init__(self, *errors: ApiError | None) -> None:
        self.now = 0.0
        self.refusal: str | None = None
        self.announced = 0
        self.api = FakeApi()
        self.api.eviction_errors.extend(errors)
        self.cluster = ClusterState()
        self.cluster.change_nodes([Upserted("n", node("n", 14))])
        self.cluster.change_pods([Upserted("low", VICTIM)])
        self.evictor = Evictor(
            self.cluster,
            self.api,
            announce=self._announce,
            fence=lambda: self.refusal,
            durations=LeaseDurations(),
            clock=lambda: self.now,
        )

    async def _announce(self) -> None:
        assert self.evictor.busy
        self.announced += 1


async def test_an_evicted_pod_terminates_in_the_ledger_before_the_watch_shows_it() -> None:
    case = Case()
    assert await case.evictor.evict(VICTIM) is Evicted.DONE
    reserved = case.cluster.ledger.reservation("low")
    assert reserved is not None
    assert reserved[1].terminating
    assert case.announced == 1
    assert not case.evictor.busy


async def test_a_pod_that_has_ended_meanwhile_does_not_come_back() -> None:
    case = Case()
    case.cluster.change_pods([Deleted("low")])
    assert await case.evictor.evict(VICTIM) is Evicted.DONE
    assert case.cluster.ledger.reservation("low") is None


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (refused(429), Evicted.BUDGET),
        (refused(404), Evicted.GONE),
        (refused(409), Evicted.GONE),
        (refused(403), Evicted.FAILED),
        (silence(), Evicted.FAILED),
    ],
)
async def test_refusals(error: ApiError, outcome: Evicted) -> None:
    case = Case(error)
    assert await case.evictor.evict(VICTIM) is outcome
    reserved = case.cluster.ledger.reservation("low")
    assert reserved is not None
    assert not reserved[1].terminating


def _lose(case: Case) -> None:
    case.refusal = "this extender does not hold the Lease"


async def _stopped(case: Case) -> None:
    await case.evictor.stop()


async def test_a_replica_that_does_not_lead_evicts_nothing() -> None:
    case = Case()
    _lose(case)
    assert await case.evictor.evict(VICTIM) is Evicted.NOT_LEADING
    assert case.api.evictions == []


async def test_the_lease_may_be_lost_while_the_connection_opens() -> None:
    case = Case()
    eviction = asyncio.create_task(case.evictor.evict(VICTIM))
    await asyncio.sleep(0)
    _lose(case)
    assert await eviction is Evicted.NOT_LEADING
    assert case.api.evictions == []


async def test_none_starts_after_the_stop() -> None:
    case = Case()
    await _stopped(case)
    assert await case.evictor.evict(VICTIM) is Evicted.NOT_LEADING


@pytest.mark.parametrize("error", [silence, lambda: refused(500)])
async def test_one_without_a_clear_answer_may_arrive_late(error: Callable[[], ApiError]) -> None:
    """So the Lease must not look quiet, nor be released, until it can no longer have an effect."""
    case = Case(error())
    await case.evictor.evict(VICTIM)
    assert case.evictor.busy
    case.now = LeaseDurations().late_s
    assert not case.evictor.busy
