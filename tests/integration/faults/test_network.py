"""A leader that loses its link to the API server and keeps all others; in a network namespace."""

import time

import pytest

from testbed import until
from testbed.daemons.extender import start_extender
from tests.support.faults import fault
from tests.support.fixtures.extenders import leads
from tests.support.fixtures.fault_arena import FaultArena
from tests.support.fixtures.namespaces import partition

pytestmark = [pytest.mark.needs("namespaces", "unshare"), pytest.mark.asyncio(loop_scope="session")]


SCHEDULER_S = 5.0
"""Calls to other replicas may still be in progress for this time."""


@fault(
    "no link to the API server (network namespace), until another one leads",
    component="leader",
)
async def test_a_leader_without_a_link_to_the_api_server_binds_nothing_and_follows_later(
    arena: FaultArena,
) -> None:
    async with partition(arena.bed) as network:
        cut_off = arena.spec(host=network.address)
        argv = [*network.inside, *cut_off.argv(network.kubeconfig)]
        await arena.started(cut_off, arena.spawn(cut_off, argv, {}))
        other = arena.spec(host=network.outside)
        await arena.started(other, start_extender(arena.bed, other))
        async with arena.load() as load:
            await network.cut()
            cut = time.monotonic()
            await arena.until_another_leads(cut_off)
            assert not await leads(cut_off)
            await arena.recovers(load, since=cut)
            await network.heal()
            load.replicas[:] = [cut_off]
            healed = time.monotonic()
            what = "a bind that the replica that was cut off forwards"
            await until(lambda: load.bound_since(healed + SCHEDULER_S), what, 60)
        await arena.proved()
        await arena.bed.process(cut_off.name).stop()
        arena.replicas.remove(cut_off)
