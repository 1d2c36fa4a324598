"""Replicas with different monotonic clocks, as those of machines with different uptimes; under load."""

import time

import pytest

from tests.fixtures.clocks import OTHER_MONOTONIC
from tests.fixtures.fault_arena import TAKE_OVER_S, FaultArena
from tests.support.faults import fault

pytestmark = [
    pytest.mark.integration,
    pytest.mark.needs("unshare", "root"),
    pytest.mark.asyncio(loop_scope="module"),
]


@fault("killed; the next one has another monotonic clock (time namespace, +1 h)", component="leader")
async def test_replicas_do_not_compare_their_monotonic_clocks(arena: FaultArena) -> None:
    leader, _ = await arena.start(), await arena.start_as(*OTHER_MONOTONIC)
    async with arena.load() as load:
        await arena.bed.kill(leader.name)
        killed = time.monotonic()
        await arena.recovers(load, since=killed, within_s=3 * TAKE_OVER_S)
        await arena.bed.start(leader.name)
    await arena.proved()
