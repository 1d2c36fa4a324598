"""One replica's part in the election, against a fake Lease."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from gpushare.adapters.kube.watch import Upserted
from gpushare.errors import ApiError
from gpushare.extender.binder import Binder
from gpushare.extender.cluster import Cluster
from gpushare.extender.decision import BindRequest
from gpushare.extender.leadership import Leadership
from gpushare.extender.lease import Terms
from gpushare.extender.settings import Deadlines
from gpushare.ports import LeaseRecord
from tests.support.builders import node, pod
from tests.unit.extender.fakes import FakeApi, gated, refused, silence, until

FAST = Terms(lease_s=1, renew_deadline_s=0.1, retry_s=0.01, post_s=0.01)
ONCE = Terms(lease_s=60, renew_deadline_s=50, retry_s=40, post_s=5)
"""One round in the time of a test."""
OTHER = LeaseRecord("other", "10.0.0.2:39999", 60, "12:00", 3, "v")
NOT_HELD = "this extender does not hold the Lease"


@dataclass
class CatchUp:
    """A catch-up that waits for its gate."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0

    async def __call__(self) -> None:
        self.begun += 1
        await self.gate.wait()


def open_gate() -> CatchUp:
    made = CatchUp()
    made.gate.set()
    return made


def candidate(api: FakeApi, catch_up: CatchUp, terms: Terms) -> Leadership:
    return Leadership(api, identity="me", address="10.0.0.1:39999", terms=terms, catch_up=catch_up)


@asynccontextmanager
async def running(
    api: FakeApi, catch_up: CatchUp | None = None, terms: Terms = ONCE
) -> AsyncIterator[Leadership]:
    leadership = candidate(api, catch_up or open_gate(), terms)
    task = asyncio.create_task(leadership.run())
    try:
        yield leadership
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_first_replica_creates_the_lease_and_leads() -> None:
    api = FakeApi()
    async with running(api) as leadership:
        await until(lambda: leadership.leads)
        assert api.lease is not None
        assert (api.lease.holder, api.lease.address) == ("me", "10.0.0.1:39999")
        assert (api.lease.duration_s, api.lease.transitions) == (60, 1)
        assert leadership.holder is None


async def test_a_new_holder_does_not_bind_before_it_has_caught_up() -> None:
    api, catch_up = FakeApi(), CatchUp()
    async with running(api, catch_up) as leadership:
        await until(lambda: catch_up.begun)
        assert leadership.refusal() == (
            "this extender took the Lease over and is waiting for the last holder's binds"
        )
        catch_up.gate.set()
        await until(lambda: leadership.leads)


FREE = replace(OTHER, holder="", address="")


@asynccontextmanager
async def running_after_scouting(
    api: FakeApi, catch_up: CatchUp, change: Callable[[], None]
) -> AsyncIterator[Leadership]:
    """A replica that looks at the Lease first; then the Lease changes; then it takes part."""
    leadership = candidate(api, catch_up, ONCE)
    await leadership.scout()
    change()
    task = asyncio.create_task(leadership.run())
    try:
        yield leadership
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("lease", [None, FREE], ids=["absent", "given-back"])
async def test_a_lease_that_was_free_since_before_the_lists_is_led_without_listing_again(
    lease: LeaseRecord | None,
) -> None:
    api, catch_up = FakeApi(), open_gate()
    api.lease = lease
    async with running_after_scouting(api, catch_up, lambda: None) as leadership:
        await until(lambda: leadership.leads)
        assert catch_up.begun == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, FREE), (FREE, replace(FREE, version="w")), (FREE, None), (None, OTHER), (OTHER, FREE)],
    ids=["taken-and-given-back", "taken-and-given-back-again", "deleted", "held-now", "was-held"],
)
async def test_a_lease_that_was_held_since_before_the_lists_needs_new_ones(
    before: LeaseRecord | None, after: LeaseRecord | None
) -> None:
    api, catch_up = FakeApi(), CatchUp()
    api.lease = before
    async with running_after_scouting(api, catch_up, lambda: setattr(api, "lease", after)) as leadership:
        await until(lambda: catch_up.begun or leadership.holder)
        assert not leadership.leads


async def test_an_old_look_at_the_lease_counts_for_the_first_term_only() -> None:
    api, catch_up = FakeApi(), open_gate()
    leadership = candidate(api, catch_up, FAST)
    await leadership.scout()
    task = asyncio.create_task(leadership.run())
    await until(lambda: leadership.leads)
    api.lease = None
    await until(lambda: catch_up.begun)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_lease_that_is_deleted_under_a_holder_seen_before_the_lists_is_waited_for() -> None:
    api, catch_up = FakeApi(), open_gate()
    api.lease = OTHER
    async with running_after_scouting(api, catch_up, lambda: setattr(api, "lease", None)) as leadership:
        await until(lambda: api.lease is not None)
        await turns()
        assert not leadership.leads
        assert catch_up.begun == 0


async def test_a_look_at_the_lease_that_fails_counts_for_nothing() -> None:
    api, catch_up = FakeApi(), open_gate()
    api.lease_errors.append(silence())
    async with running_after_scouting(api, catch_up, lambda: None) as leadership:
        await until(lambda: leadership.leads)
        assert catch_up.begun == 1


async def test_a_follower_knows_the_holder_and_does_not_lead() -> None:
    api = FakeApi(lease=OTHER)
    async with running(api) as leadership:
        await until(lambda: leadership.holder)
        assert leadership.holder == OTHER
        assert leadership.refusal() == NOT_HELD
    assert api.lease == OTHER


async def test_without_the_right_to_the_lease_it_binds_alone() -> None:
    api = FakeApi(lease_errors=deque([refused(403)]))
    async with running(api) as leadership:
        await until(lambda: leadership.alone)
        assert leadership.refusal() is None


async def test_a_right_that_is_granted_later_ends_the_reduced_mode() -> None:
    api = FakeApi(lease_errors=deque([refused(403)]))
    async with running(api, terms=FAST) as leadership:
        await until(lambda: leadership.alone)
        await until(lambda: not leadership.alone and leadership.leads)
        assert api.lease is not None


async def test_whoever_loses_the_race_for_the_lease_does_not_lead() -> None:
    api = FakeApi(lease_errors=deque([None, refused(409)]))
    async with running(api) as leadership:
        await until(lambda: not api.lease_errors)
        await turns()
        assert leadership.refusal() == NOT_HELD
        assert not leadership.alone


async def test_an_api_that_is_away_makes_no_leader() -> None:
    api = FakeApi(lease_errors=deque([silence()]))
    async with running(api) as leadership:
        await until(lambda: not api.lease_errors)
        await turns()
        assert leadership.refusal() == NOT_HELD


async def test_a_holder_that_cannot_renew_stops_binding_before_the_lease_is_up() -> None:
    api = FakeApi()
    async with running(api, terms=FAST) as leadership:
        await until(lambda: leadership.leads)
        api.lease_errors = deque([silence()] * 1000)
        await until(lambda: not leadership.leads)
        assert leadership.refusal() == NOT_HELD


async def test_a_holder_goes_on_after_a_renewal_that_failed_once() -> None:
    api = FakeApi()
    async with running(api, terms=FAST) as leadership:
        await until(lambda: leadership.leads)
        before = api.writes
        api.lease_errors = deque([silence()])
        await until(lambda: api.writes > before + 1)
        assert leadership.leads


async def test_a_holder_whose_lease_was_taken_steps_down() -> None:
    api, catch_up = FakeApi(), open_gate()
    async with running(api, catch_up, FAST) as leadership:
        await until(lambda: leadership.leads)
        api.lease = OTHER
        await until(lambda: leadership.holder)
        assert not leadership.leads
        assert leadership.refusal() == NOT_HELD


async def test_a_lease_that_another_held_meanwhile_and_gave_back_is_led_only_after_a_catch_up() -> None:
    """The other's binds may not have come through our watch."""
    api, catch_up = FakeApi(), open_gate()
    async with running(api, catch_up, FAST) as leadership:
        await until(lambda: leadership.leads)
        catch_up.gate.clear()
        api.lease = replace(OTHER, holder="", address="", duration_s=1)
        await until(lambda: api.lease and api.lease.holder == "me")
        await turns()
        assert not leadership.leads
        assert catch_up.begun == 2
        catch_up.gate.set()
        await until(lambda: leadership.leads)


async def test_a_lease_that_was_given_back_is_led_at_once() -> None:
    api = FakeApi(lease=replace(OTHER, holder=""))
    async with running(api) as leadership:
        await until(lambda: leadership.leads, within_s=1)
        assert api.lease is not None
        assert api.lease.transitions == 4


async def test_a_renewal_is_no_transition() -> None:
    api = FakeApi()
    async with running(api, terms=FAST) as leadership:
        await until(lambda: leadership.leads and api.writes > 2)
        assert api.lease is not None
        assert api.lease.transitions == 1


async def test_at_an_end_with_no_bind_under_way_the_lease_is_given_back() -> None:
    api = FakeApi()
    async with running(api) as leadership:
        await until(lambda: leadership.leads)
        leadership.give_back_at_end()
    assert api.lease is not None
    assert (api.lease.holder, api.lease.address, api.lease.duration_s) == ("", "", 1)
    assert leadership.refusal() == NOT_HELD


async def test_a_holder_that_ends_in_any_other_way_lets_its_lease_lapse() -> None:
    """A POST of its own may be under way, and the next holder of a Lease that is given back does not wait."""
    api = FakeApi()
    async with running(api) as leadership:
        await until(lambda: leadership.leads)
    assert api.lease is not None
    assert (api.lease.holder, api.lease.duration_s) == ("me", 60)
    assert leadership.refusal() == NOT_HELD


async def test_a_crash_of_a_job_beside_a_bind_under_way_lets_the_lease_lapse() -> None:
    api = FakeApi(script=deque([gated(asyncio.Event())]))
    api.has(pod("a", 4))
    with pytest.raises(ExceptionGroup, match="TaskGroup"):
        await bind_beside_a_job_that_crashes(api)
    assert api.lease is not None
    assert api.lease.holder == "me"


async def bind_beside_a_job_that_crashes(api: FakeApi) -> None:
    """As the daemon runs them: one task group for the election, the binds and all other jobs."""
    cluster, leadership = Cluster(), candidate(api, open_gate(), ONCE)
    cluster.change_nodes([Upserted("n", node("n", 14))])

    async def job() -> None:
        await until(lambda: api.posts)
        raise ValueError("a defect")

    async with asyncio.TaskGroup() as tasks:
        binder = Binder(
            cluster, api, fence=leadership.refusal, note=print, tasks=tasks, deadlines=Deadlines()
        )
        tasks.create_task(leadership.run())
        await until(lambda: leadership.leads)
        tasks.create_task(binder.bind(BindRequest("default", "a", "a", "n")))
        tasks.create_task(job())


@pytest.mark.parametrize("error", [refused(409), silence()])
async def test_a_lease_that_cannot_be_given_back_does_not_keep_the_daemon(error: ApiError) -> None:
    api = FakeApi()
    async with running(api) as leadership:
        await until(lambda: leadership.leads)
        leadership.give_back_at_end()
        api.lease_errors = deque([error])
    assert api.lease is not None
    assert api.lease.holder == "me"
