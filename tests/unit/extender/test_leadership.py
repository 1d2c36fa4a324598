"""Leader election of one replica, with a fake Lease, in virtual time."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from structlog.testing import capture_logs

from gpushare.errors import ApiError, ApiRestored
from gpushare.extender.binder import Binder
from gpushare.extender.cluster import ClusterState
from gpushare.extender.decision import BindRequest
from gpushare.extender.leadership import Leadership
from gpushare.extender.lease import LeaseDurations, Replica
from gpushare.model.changes import Upserted
from gpushare.ports import LeaseRecord
from tests.support.builders.scheduling import node, pod
from tests.support.virtual_time import skip_waits
from tests.support.waiting import until
from tests.unit.extender.fakes import CatchUp, FakeApi, gated, open_gate, refused, silence

FAST = LeaseDurations(lease_s=1, renew_deadline_s=0.1, retry_s=0.01, post_s=0.01, api_request_s=0.02)
ONCE = LeaseDurations(lease_s=60, renew_deadline_s=50, retry_s=40, post_s=5, api_request_s=10)
"""One round in the time of a test."""
OTHER = LeaseRecord("other", "10.0.0.2:39999", 60, "12:00", 3, "v")
QUICK = LeaseDurations(lease_s=0.6, renew_deadline_s=0.5, retry_s=0.01, post_s=0.02, api_request_s=0.04)
"""A take-over of less than a second, in full."""
ROUNDING_S = 1e-6
"""The error of sums of times, which grows with the uptime of the machine."""
FREE = replace(OTHER, holder="", address="", duration_s=1)
"""A Lease that was given back."""
NOT_ANNOUNCED = "this extender has not announced its binds in the Lease yet"
NOT_HELD = "this extender does not hold the Lease"
REFUSED = (
    "this extender may not use its Lease (User x cannot {}): "
    "grant its account get, create and update on leases, "
    "or start the only replica with --allow-without-lease"
)


def waits(leadership: Leadership, cause: str = "") -> bool:
    """Whether it has the Lease and tells when, and why only then, it begins to bind."""
    text = leadership.fence() or ""
    pattern = rf"this extender binds from \d\d:\d\d:\d\d UTC on: .*{cause}"
    return re.fullmatch(pattern + ("" if cause else ".+"), text) is not None and leadership.waiting == text


def candidate(
    api: FakeApi,
    catch_up: CatchUp,
    durations: LeaseDurations,
    *,
    binding: Callable[[], bool] = lambda: True,
    slept_s: Callable[[], float] = lambda: 0.0,
) -> Leadership:
    return Leadership(
        api,
        replica=Replica("me", "10.0.0.1:39999"),
        durations=durations,
        catch_up=catch_up,
        binding=binding,
        clock=lambda: now() + slept_s(),
    )


@pytest.fixture(autouse=True)
async def virtual_time() -> None:
    skip_waits(asyncio.get_running_loop())


def now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def running(
    api: FakeApi,
    catch_up: CatchUp | None = None,
    durations: LeaseDurations = ONCE,
    *,
    binding: Callable[[], bool] = lambda: True,
    slept_s: Callable[[], float] = lambda: 0.0,
) -> AsyncIterator[Leadership]:
    leadership = candidate(api, catch_up or open_gate(), durations, binding=binding, slept_s=slept_s)
    task = asyncio.create_task(leadership.run())
    try:
        yield leadership
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def rounds(api: FakeApi, seconds: float) -> None:
    """As many reads of the Lease as take that long."""
    enough = api.lease_requests + seconds / QUICK.retry_s
    await until(lambda: api.lease_requests > enough, within_s=10)


async def test_the_first_replica_creates_the_lease() -> None:
    api = FakeApi()
    async with running(api) as leadership:
        await until(lambda: api.lease)
        assert api.lease is not None
        assert (api.lease.holder, api.lease.address) == ("me", "10.0.0.1:39999")
        assert (api.lease.duration_s, api.lease.transitions) == (60, 1)
        assert leadership.holder is None


UNHELD = LeaseRecord("", "", 0, "", 0, "v")
"""A Lease as a manifest makes it."""


@pytest.mark.parametrize("lease", [None, UNHELD], ids=["absent", "never-held"])
async def test_an_invalid_lease_is_waited_for_in_full_and_followed_by_a_catch_up(
    lease: LeaseRecord | None,
) -> None:
    """It may have been deleted while it was held, or another replica may bind without one."""
    api, catch_up = FakeApi(lease=lease), open_gate()
    began = now()
    async with running(api, catch_up, QUICK) as leadership:
        await until(lambda: waits(leadership, "so that another one may still bind"))
        await until(lambda: leadership.leads)
        assert now() - began >= QUICK.take_over_s - ROUNDING_S
        assert catch_up.begun == 1


async def test_a_new_holder_does_not_bind_before_it_has_caught_up() -> None:
    api, catch_up = FakeApi(lease=FREE), CatchUp()
    async with running(api, catch_up) as leadership:
        await until(lambda: catch_up.begun)
        assert waits(leadership)
        catch_up.gate.set()
        await until(lambda: leadership.leads)


async def test_each_lead_is_announced_once_when_binds_may_start() -> None:
    api = FakeApi(lease=FREE)
    async with running(api, durations=FAST) as leadership:
        await until(leadership.began.is_set)
        assert leadership.leads
        leadership.began.clear()
        await rounds(api, 2 * FAST.lease_s)
        assert not leadership.began.is_set()
        api.lease = OTHER
        await until(lambda: leadership.holder)
        assert not leadership.began.is_set()
        api.lease = replace(FREE, version="later")
        await until(leadership.began.is_set)


@asynccontextmanager
async def running_after_observation(
    api: FakeApi, catch_up: CatchUp, change: Callable[[], None]
) -> AsyncIterator[Leadership]:
    """A replica that reads the Lease first; then the Lease changes; then it takes part."""
    leadership = candidate(api, catch_up, ONCE)
    await leadership.observe_lease()
    change()
    task = asyncio.create_task(leadership.run())
    try:
        yield leadership
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_lease_that_was_free_before_the_lists_needs_no_new_lists() -> None:
    api, catch_up = FakeApi(lease=FREE), open_gate()
    async with running_after_observation(api, catch_up, lambda: None) as leadership:
        await until(lambda: leadership.leads)
        assert catch_up.begun == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, FREE), (FREE, replace(FREE, version="w")), (None, OTHER), (OTHER, FREE)],
    ids=["taken-and-given-back", "taken-and-given-back-again", "held-now", "was-held"],
)
async def test_a_lease_that_was_held_before_the_lists_requires_new_lists(
    before: LeaseRecord | None, after: LeaseRecord | None
) -> None:
    api, catch_up = FakeApi(), CatchUp()
    api.lease = before
    async with running_after_observation(api, catch_up, lambda: setattr(api, "lease", after)) as leadership:
        await until(lambda: catch_up.begun or leadership.holder)
        assert not leadership.leads


async def test_an_old_observation_of_the_lease_counts_for_the_first_lead_only() -> None:
    api, catch_up = FakeApi(lease=FREE), open_gate()
    leadership = candidate(api, catch_up, FAST)
    await leadership.observe_lease()
    task = asyncio.create_task(leadership.run())
    await until(lambda: leadership.leads)
    api.lease = None
    await until(lambda: catch_up.begun)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("before", [OTHER, FREE, None], ids=["held", "free", "absent"])
async def test_an_absent_lease_is_waited_for_regardless_of_earlier_observations(
    before: LeaseRecord | None,
) -> None:
    api, catch_up = FakeApi(lease=before), open_gate()
    async with running_after_observation(api, catch_up, lambda: setattr(api, "lease", None)) as leadership:
        await until(lambda: api.lease is not None)
        await turns()
        assert not leadership.leads
        assert catch_up.begun == 0


async def test_a_failed_observation_of_the_lease_is_ignored() -> None:
    api, catch_up = FakeApi(lease=FREE), open_gate()
    api.lease_errors.append(silence())
    async with running_after_observation(api, catch_up, lambda: None) as leadership:
        await until(lambda: leadership.leads)
        assert catch_up.begun == 1


async def test_a_follower_knows_the_holder_and_does_not_lead() -> None:
    api = FakeApi(lease=OTHER)
    async with running(api) as leadership:
        await until(lambda: leadership.holder)
        assert leadership.holder == OTHER
        assert leadership.fence() == NOT_HELD
    assert api.lease == OTHER


# --- a Lease that the API server forbids ---------------------------------------------------------


@pytest.mark.parametrize(("granted", "missing"), [((), "get leases"), (("get",), "create leases")])
async def test_without_permission_for_the_lease_no_replica_binds_and_both_remedies_are_named(
    granted: tuple[str, ...], missing: str
) -> None:
    api = FakeApi(lease_verbs=granted)
    async with running(api) as leadership:
        await until(lambda: leadership.degraded)
        assert leadership.fence() == leadership.degraded == REFUSED.format(missing)


async def test_a_rejection_does_not_make_a_follower_bind() -> None:
    api = FakeApi(lease=OTHER)
    async with running(api, durations=FAST) as leadership:
        await until(lambda: leadership.holder)
        api.lease_verbs = ()
        await until(lambda: leadership.degraded)
        await turns()
        assert not leadership.leads
        assert leadership.holder == OTHER
        api.lease_verbs = ("get",)
        await until(lambda: not leadership.degraded)
        assert leadership.fence() == NOT_HELD


async def test_a_holder_whose_renewal_is_rejected_binds_until_its_deadline_and_recovers_later() -> None:
    """No other extender can have had it: the Lease still names the holder."""
    api, catch_up = FakeApi(lease=FREE), open_gate()
    async with running(api, catch_up, QUICK) as leadership:
        await until(lambda: leadership.leads)
        api.lease_verbs = ("get",)
        await until(lambda: leadership.degraded)
        assert leadership.leads
        await until(lambda: not leadership.leads)
        assert leadership.fence() == REFUSED.format("update leases")
        api.lease_verbs = ("get", "update")
        await until(lambda: leadership.leads)
        assert catch_up.begun == 1


async def test_a_rejection_is_logged_once() -> None:
    api = FakeApi(lease_errors=deque([refused(403, "no")] * 5))
    with capture_logs() as logs:
        async with running(api, durations=FAST):
            await until(lambda: not api.lease_errors)
    reported = [entry for entry in logs if entry["log_level"] == "warning"]
    assert [(entry["event"], entry["right"]) for entry in reported] == [("degraded_mode", "leases")]
    assert "may not use its Lease (no)" in reported[0]["effect"]


# --- outages, races, the end ---------------------------------------------------------------------


@pytest.mark.parametrize("errors", [[None, refused(409)], [silence()]], ids=["race-lost", "unavailable"])
async def test_a_replica_that_did_not_get_the_lease_does_not_lead(errors: list[ApiError | None]) -> None:
    api = FakeApi(lease_errors=deque(errors))
    async with running(api) as leadership:
        await until(lambda: not api.lease_errors)
        await turns()
        assert leadership.fence() == NOT_HELD


async def test_a_holder_that_cannot_renew_stops_binding_before_the_lease_is_up() -> None:
    api = FakeApi(lease=FREE)
    async with running(api, durations=FAST) as leadership:
        await until(lambda: leadership.leads)
        api.lease_errors = deque([silence()] * 1000)
        await until(lambda: not leadership.leads)
        assert leadership.fence() == NOT_HELD


class SlowApi(FakeApi):
    """Each write of the Lease takes 10 seconds."""

    async def write_lease(self, record: LeaseRecord) -> LeaseRecord:
        await asyncio.sleep(10)
        return await super().write_lease(record)


async def test_the_time_to_bind_counts_from_the_start_of_a_renewal() -> None:
    """Other replicas count from a moment before its answer."""
    async with running(SlowApi(lease=FREE)) as leadership:
        began = now()
        await until(lambda: leadership.fence() is None, within_s=20)
        await asyncio.sleep(began + ONCE.renew_deadline_s - ONCE.post_s - 1 - now())
        assert leadership.fence() is None
        await asyncio.sleep(2)
        assert leadership.fence() == NOT_HELD


async def test_a_holder_continues_after_one_failed_renewal() -> None:
    api = FakeApi(lease=FREE)
    async with running(api, durations=FAST) as leadership:
        await until(lambda: leadership.leads)
        before = api.writes
        api.lease_errors = deque([silence()])
        await until(lambda: api.writes > before + 1)
        assert leadership.leads


async def test_a_holder_whose_lease_was_taken_steps_down() -> None:
    api, catch_up = FakeApi(lease=FREE), open_gate()
    async with running(api, catch_up, FAST) as leadership:
        await until(lambda: leadership.leads)
        api.lease = OTHER
        await until(lambda: leadership.holder)
        assert not leadership.leads
        assert leadership.fence() == NOT_HELD


async def test_a_machine_that_was_suspended_binds_again_only_after_a_renewal() -> None:
    api, sleeps = FakeApi(lease=FREE), [0.0]
    async with running(api, slept_s=lambda: sum(sleeps)) as leadership:
        await until(lambda: leadership.fence() is None)
        sleeps.append(ONCE.renew_deadline_s)
        assert leadership.fence() == NOT_HELD
        await until(lambda: leadership.fence() is None, within_s=2 * ONCE.retry_s)
        assert api.lease is not None
        assert (api.lease.holder, api.lease.transitions) == ("me", FREE.transitions + 1)


async def test_a_machine_that_another_replaced_while_it_was_suspended_never_binds() -> None:
    api, sleeps = FakeApi(lease=FREE), [0.0]
    async with running(api, slept_s=lambda: sum(sleeps)) as leadership:
        await until(lambda: leadership.fence() is None)
        sleeps.append(3600)
        api.lease = replace(OTHER, version="w")
        while leadership.holder is None:
            assert leadership.fence() == NOT_HELD
            await asyncio.sleep(1)
        assert leadership.fence() == NOT_HELD


async def test_a_follower_that_was_suspended_does_not_take_a_lease_that_was_renewed_meanwhile() -> None:
    api, sleeps = FakeApi(lease=OTHER), [0.0]
    async with running(api, slept_s=lambda: sum(sleeps)) as leadership:
        await until(lambda: leadership.holder == OTHER)
        sleeps.append(3600)
        api.lease = renewed = replace(OTHER, renewed="13:00", version="w")
        await until(lambda: leadership.holder == renewed, within_s=2 * ONCE.retry_s)
        assert leadership.fence() == NOT_HELD


async def test_a_lease_that_another_replica_held_meanwhile_and_released_is_led_only_after_a_catch_up() -> (
    None
):
    """Our watch may not have returned the binds of the other replica."""
    api, catch_up = FakeApi(lease=FREE), open_gate()
    async with running(api, catch_up, FAST) as leadership:
        await until(lambda: leadership.leads)
        catch_up.gate.clear()
        api.lease = FREE
        await until(lambda: api.lease and api.lease.holder == "me")
        await turns()
        assert not leadership.leads
        assert catch_up.begun == 2
        catch_up.gate.set()
        await until(lambda: leadership.leads)


async def test_an_earlier_state_of_the_lease_ends_the_process_without_a_release() -> None:
    """The API server was restored from a backup: pods and binds may have gone back too."""
    api = FakeApi(lease=FREE)
    leadership = candidate(api, open_gate(), FAST)
    task = asyncio.create_task(leadership.run())
    await until(lambda: leadership.leads and api.writes > 3)
    assert api.lease is not None
    api.lease = earlier = replace(api.lease, version="1")
    with pytest.raises(ApiRestored, match=r"Lease: the API server returned version 1 after \d"):
        await asyncio.wait_for(task, 5)
    assert api.lease == earlier
    assert not leadership.leads


async def test_a_lease_that_was_released_is_led_at_once() -> None:
    api = FakeApi(lease=replace(OTHER, holder=""))
    async with running(api) as leadership:
        await until(lambda: leadership.leads, within_s=1)
        assert api.lease is not None
        assert api.lease.transitions == 4


@dataclass
class DeletingApi(FakeApi):
    """A fake that deletes the Lease right before the next write, and may lose its answer."""

    deletes: bool = False
    answers: bool = True

    async def write_lease(self, record: LeaseRecord) -> LeaseRecord:
        if not self.deletes:
            return await super().write_lease(record)
        self.lease, self.deletes = None, False
        written = await super().write_lease(record)
        if not self.answers:
            raise silence()
        return written


@pytest.mark.parametrize("answers", [True, False])
async def test_a_lease_deleted_and_recreated_by_a_renewal_is_waited_for_in_full(
    *,
    answers: bool,
) -> None:
    """Another extender may have created it in between, and binds until it finds it gone."""
    api, catch_up = DeletingApi(lease=FREE, answers=answers), open_gate()
    async with running(api, catch_up, QUICK) as leadership:
        await until(lambda: leadership.leads)
        api.deletes = True
        began = now()
        await until(lambda: waits(leadership))
        await until(lambda: leadership.leads)
        assert now() - began >= QUICK.take_over_s - ROUNDING_S
        assert catch_up.begun == 2


async def test_a_renewal_is_no_transition() -> None:
    api = FakeApi(lease=FREE)
    async with running(api, durations=FAST) as leadership:
        await until(lambda: leadership.leads and api.writes > 2)
        assert api.lease is not None
        assert api.lease.transitions == FREE.transitions + 1


async def test_at_an_end_with_no_bind_under_way_the_lease_is_released() -> None:
    api = FakeApi(lease=FREE)
    async with running(api) as leadership:
        await until(lambda: leadership.leads)
        leadership.release_at_end()
    assert api.lease is not None
    assert (api.lease.holder, api.lease.address, api.lease.duration_s) == ("", "", 1)
    assert leadership.fence() == NOT_HELD


async def test_a_holder_that_ends_in_any_other_way_lets_its_lease_lapse() -> None:
    """A bind may be in progress, and the next holder of a released Lease does not wait."""
    api = FakeApi(lease=FREE)
    async with running(api) as leadership:
        await until(lambda: leadership.leads)
    assert api.lease is not None
    assert (api.lease.holder, api.lease.duration_s) == ("me", 60)
    assert leadership.fence() == NOT_HELD


async def test_a_holder_that_still_waits_for_binds_of_others_lets_its_lease_lapse() -> None:
    """The next holder would not wait for them."""
    api = FakeApi()
    async with running(api) as leadership:
        await until(lambda: waits(leadership))
        leadership.release_at_end()
    assert api.lease is not None
    assert api.lease.holder == "me"


async def test_a_crash_of_a_job_beside_a_bind_under_way_lets_the_lease_lapse() -> None:
    api = FakeApi(lease=FREE, script=deque([gated(asyncio.Event())]))
    api.has(pod("a", 4))
    with pytest.raises(ExceptionGroup, match="TaskGroup"):
        await bind_beside_a_job_that_crashes(api)
    assert api.lease is not None
    assert api.lease.holder == "me"


async def bind_beside_a_job_that_crashes(api: FakeApi) -> None:
    """As the daemon runs them: one task group for the election, the binds and all other jobs."""
    cluster, leadership = ClusterState(), candidate(api, open_gate(), ONCE)
    cluster.change_nodes([Upserted("n", node("n", 14))])

    async def job() -> None:
        await until(lambda: api.posts)
        raise ValueError("a defect")

    async with asyncio.TaskGroup() as tasks:
        binder = Binder(
            cluster,
            api,
            announce=leadership.announce,
            fence=leadership.fence,
            record_event=print,
            tasks=tasks,
            durations=LeaseDurations(),
        )
        tasks.create_task(leadership.run())
        await until(lambda: leadership.leads)
        tasks.create_task(binder.bind(BindRequest("default", "a", "a", "n")))
        tasks.create_task(job())


# --- announcements of binds ----------------------------------------------------------------------


def quiet(api: FakeApi) -> bool:
    return api.lease is not None and api.lease.quiet


async def test_a_quiet_leader_announces_a_bind_in_the_lease_before_its_fence_opens() -> None:
    api, binding = FakeApi(lease=FREE), False
    async with running(api, binding=lambda: binding) as leadership:
        await until(lambda: leadership.leads)
        assert (quiet(api), leadership.fence()) == (True, NOT_ANNOUNCED)
        binding = True
        began = now()
        await leadership.announce()
        assert (quiet(api), leadership.fence()) == (False, None)
        assert now() - began < ONCE.retry_s


async def test_a_leader_that_has_announced_binds_writes_nothing_for_the_next_one() -> None:
    api = FakeApi(lease=FREE)
    async with running(api) as leadership:
        await until(lambda: leadership.leads)
        before = api.lease_requests
        await leadership.announce()
        assert (leadership.fence(), api.lease_requests) == (None, before)


async def test_the_fence_closes_before_the_lease_says_that_there_are_no_binds() -> None:
    """A write without an answer may have an effect."""
    api, binding = FakeApi(lease=FREE), True
    async with running(api, durations=QUICK, binding=lambda: binding) as leadership:
        await until(lambda: leadership.fence() is None)
        api.lease_errors = deque([None, silence()])
        binding = False
        await until(lambda: not api.lease_errors)
        assert (leadership.leads, leadership.fence()) == (True, NOT_ANNOUNCED)


async def test_an_announcement_without_an_answer_leaves_the_fence_closed() -> None:
    api = FakeApi(lease=FREE)
    async with running(api, binding=lambda: False) as leadership:
        await until(lambda: leadership.leads)
        api.lease_errors = deque([silence()])
        await leadership.announce()
        assert leadership.fence() == NOT_ANNOUNCED


async def test_a_replica_that_may_not_bind_announces_nothing() -> None:
    api = FakeApi(lease=OTHER)
    async with running(api) as leadership:
        await until(lambda: api.lease_requests)
        await leadership.announce()
        assert api.lease == OTHER


@pytest.mark.parametrize("error", [refused(409), silence()])
async def test_a_lease_that_cannot_be_released_does_not_keep_the_daemon(error: ApiError) -> None:
    api = FakeApi(lease=FREE)
    async with running(api) as leadership:
        await until(lambda: leadership.leads)
        leadership.release_at_end()
        api.lease_errors = deque([error])
    assert api.lease is not None
    assert api.lease.holder == "me"
