"""Replicas of the extender that end or stand still, under load."""

import signal
import time

import pytest

from tests.support.faults import fault
from tests.support.fixtures.extenders import until_leads
from tests.support.fixtures.fault_arena import FaultArena

pytestmark = pytest.mark.asyncio(loop_scope="session")


@fault("killed (SIGKILL)", component="leader")
@pytest.mark.short
async def test_a_killed_leader_is_followed_by_another_replica(arena: FaultArena) -> None:
    leader, _ = await arena.start(), await arena.start()
    async with arena.load() as load:
        await arena.bed.kill(leader.name, signal.SIGKILL)
        killed = time.monotonic()
        await arena.recovers(load, since=killed)
        await arena.bed.start(leader.name)
    await arena.proved()


@fault("killed (SIGKILL)", component="follower")
async def test_a_killed_follower_stops_no_bind(arena: FaultArena) -> None:
    _, follower = await arena.start(), await arena.start()
    async with arena.load() as load:
        await arena.bed.kill(follower.name, signal.SIGKILL)
        killed = time.monotonic()
        await arena.recovers(load, since=killed)
        await arena.bed.start(follower.name)
    await arena.proved()


@fault("killed (SIGKILL) and started again", component="only replica")
async def test_a_killed_replica_waits_for_its_own_late_binds(arena: FaultArena) -> None:
    only = await arena.start()
    async with arena.load() as load:
        await arena.bed.kill(only.name, signal.SIGKILL)
        await arena.bed.start(only.name)
        started = time.monotonic()
        await arena.recovers(load, since=started)
    await arena.proved()


@fault("frozen (SIGSTOP), continued after another replica leads", component="leader")
@pytest.mark.short
async def test_a_frozen_leader_is_followed_by_another_replica_and_does_not_bind_again(
    arena: FaultArena,
) -> None:
    leader, _ = await arena.start(), await arena.start()
    async with arena.load() as load:
        await arena.bed.pause(leader.name)
        frozen = time.monotonic()
        other = await arena.until_another_leads(leader)
        await arena.recovers(load, since=frozen)
        await arena.bed.resume(leader.name)
        await load.until_bound(len(load.bound_at) + 20)
        await until_leads(other)
    await arena.proved()
