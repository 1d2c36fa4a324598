"""A leader whose time of day jumps, and replicas with different monotonic clocks; under load."""

import time

import pytest

from testbed import Bed
from testbed.daemons.extender import LEASES
from tests.support.faults import fault
from tests.support.fixtures.clocks import OTHER_MONOTONIC, wall_clock
from tests.support.fixtures.extenders import leads, until_leads
from tests.support.fixtures.fault_arena import TAKE_OVER_S, FaultArena

pytestmark = [pytest.mark.needs("compiler", "unshare", "root"), pytest.mark.asyncio(loop_scope="session")]


async def renewed_at(bed: Bed, lease: str) -> str:
    text: str = (await bed.api.get(f"{LEASES}/{lease}"))["spec"]["renewTime"]
    return text


@pytest.mark.parametrize(
    "hours",
    [
        pytest.param(1, marks=fault("time of day 1 h ahead (shim)", component="leader"), id="ahead"),
        pytest.param(-1, marks=fault("time of day 1 h back (shim)", component="leader"), id="back"),
    ],
)
async def test_a_leader_whose_time_of_day_jumps_keeps_binding_alone(arena: FaultArena, hours: int) -> None:
    clock = await wall_clock(arena.bed.folder)
    leader, other = await arena.start_as(**clock.env), await arena.start()
    async with arena.load() as load:
        before = await renewed_at(arena.bed, arena.lease)
        clock.set(hours)
        jumped = time.monotonic()
        await arena.recovers(load, since=jumped, within_s=TAKE_OVER_S)
        await load.until_bound(len(load.bound_at) + 60)
        after = await renewed_at(arena.bed, arena.lease)
        assert (before[:13] < after[:13]) is (hours > 0), "the shim has no effect"
        await until_leads(leader)
        assert not await leads(other)
    clock.set(0)
    await arena.proved()


@fault("killed; the next one has another monotonic clock (time namespace, +1 h)", component="leader")
async def test_replicas_do_not_compare_their_monotonic_clocks(arena: FaultArena) -> None:
    leader, _ = await arena.start(), await arena.start_as(*OTHER_MONOTONIC)
    async with arena.load() as load:
        await arena.bed.kill(leader.name)
        killed = time.monotonic()
        await arena.recovers(load, since=killed)
        await arena.bed.start(leader.name)
    await arena.proved()
