"""A rolling upgrade of three replicas from the release before, under load."""

import asyncio
import base64
import itertools
import secrets
import time
from contextlib import suppress

import pytest

from devkit.waiting import timeout_factor
from gpushare.contract import SEAL_SECRET, SEAL_SECRET_KEY
from gpushare.errors import ApiError
from testbed import Bed
from testbed.daemons.extender import ACCOUNT, ExtenderSpec
from tests.support.faults import fault
from tests.support.fixtures.bind_load import BindLoad
from tests.support.fixtures.fault_arena import LEASE_S, FaultArena
from tests.support.fixtures.releases import Release, previous_release

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRETS = "/api/v1/namespaces/kube-system/secrets"
REPLICAS = 3


async def create_key(bed: Bed) -> None:
    """Store the key of the seals in the Secret that the stack of the version before creates."""
    with suppress(ApiError):
        await bed.api.delete(f"{SECRETS}/{SEAL_SECRET}")
    data = {SEAL_SECRET_KEY: base64.b64encode(secrets.token_bytes(32)).decode()}
    await bed.api.create(SECRETS, {"metadata": {"name": SEAL_SECRET}, "immutable": True, "data": data})


async def start_previous(arena: FaultArena, release: Release) -> ExtenderSpec:
    spec = arena.spec()
    argv = release.argv(spec.argv(arena.bed.kubeconfig_for(ACCOUNT)))
    return await arena.started(spec, arena.spawn(spec, argv, release.env))


async def replace_one(arena: FaultArena, load: BindLoad, old: ExtenderSpec) -> None:
    """As a Deployment does: the new replica is ready before the old one is no endpoint any more, and ends."""
    load.replicas.append(await arena.start())
    load.replicas.remove(old)
    await arena.bed.stop(old.name)


@fault("rolling upgrade of three replicas from the version before", component="extender")
async def test_no_bind_is_refused_for_longer_than_the_lease_during_an_upgrade(arena: FaultArena) -> None:
    release = await asyncio.to_thread(previous_release, arena.bed.folder / "previous")
    await create_key(arena.bed)
    old = [await start_previous(arena, release) for _ in range(REPLICAS)]
    async with arena.load() as load:
        for each in old:
            await replace_one(arena, load, each)
        await load.until_bound(len(load.bound_at) + 10)
        gaps = [after - before for before, after in itertools.pairwise(sorted(load.bound_at))]
    what = f"the next bind at most; upgraded from {release.version}"
    arena.row.recovered(max(gaps), what, within_s=LEASE_S)
    assert time.monotonic() - load.bound_at[-1] < LEASE_S * timeout_factor()
    await arena.proved()
