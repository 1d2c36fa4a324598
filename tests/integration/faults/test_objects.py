"""Objects that are deleted and created again under running replicas: a Node, the Secret of the seals."""

import base64
import datetime as dt
import secrets
import time

import pytest

from devkit.waiting import together
from gpushare.contract import SEAL_SECRET, SEAL_SECRET_KEY
from testbed import Bed, SimGpu, SimNode, until
from tests.support.faults import fault
from tests.support.fixtures.bind_load import PODS
from tests.support.fixtures.fault_arena import NODES, SIZE, FaultArena

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRETS = "/api/v1/namespaces/kube-system/secrets"


@fault("deleted and created again while its pods run", component="Node object")
async def test_pods_of_a_node_that_is_created_again_keep_their_units(arena: FaultArena) -> None:
    bed, name = arena.bed, NODES[2]
    await arena.start(), await arena.start()

    async def here() -> set[str]:
        found = await bed.api.items(PODS, fieldSelector=f"spec.nodeName={name}")
        return {each["metadata"]["uid"] for each in found}

    async with arena.load(bound=20):
        assert await here()
        await bed.delete_node(name)
        await bed.add_nodes([SimNode(name, [SimGpu(units=SIZE), SimGpu(units=SIZE)])])
        since, before = time.monotonic(), await here()

        async def bound_here() -> bool:
            return bool(await here() - before)

        await arena.row.recovers(bound_here, "first bind to the node", since=since, within_s=30)
    await arena.proved()


async def stored_key(bed: Bed) -> str | None:
    data: dict[str, str] = (await bed.api.get(f"{SECRETS}/{SEAL_SECRET}")).get("data", {})
    return data.get(SEAL_SECRET_KEY)


@fault("created again without a key, and the replicas started again", component="Secret of the seals")
async def test_the_known_key_is_stored_again_before_replicas_that_start_need_it(arena: FaultArena) -> None:
    bed, specs = arena.bed, [await arena.start(), await arena.start()]
    before = await stored_key(bed)
    async with arena.load() as load:
        await bed.api.delete(f"{SECRETS}/{SEAL_SECRET}")

        async def again() -> bool:
            return await stored_key(bed) == before

        await until(again, "the Secret", 30)
        await load.until_bound(len(load.bound_at) + 20)
        for each in specs:
            await bed.process(each.name).restart()
        await arena.recovers(load, since=time.monotonic())
    await arena.proved()


async def a_later_second(than: str) -> bool:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") > than


async def made_again(bed: Bed) -> bool:
    """Create the Secret with another key. Raises ApiError if a replica was faster to create it again."""
    data = {SEAL_SECRET_KEY: base64.b64encode(secrets.token_bytes(32)).decode()}
    await bed.api.delete(f"{SECRETS}/{SEAL_SECRET}")
    await bed.api.create(SECRETS, {"metadata": {"name": SEAL_SECRET}, "immutable": True, "data": data})
    return True


@fault("made again with another key, and the replicas started again", component="Secret of the seals")
async def test_pods_with_seals_of_the_earlier_key_keep_their_gpus(arena: FaultArena) -> None:
    bed, specs = arena.bed, [await arena.start(), await arena.start()]
    async with arena.load(bound=20):
        pass
    # Times of the API have whole seconds, and a pod as old as the key needs a seal with it.
    newest = max(each["metadata"]["creationTimestamp"] for each in await bed.api.items(PODS))
    await until(lambda: a_later_second(than=newest), "a second without new pods")
    await until(lambda: made_again(bed), "the Secret with another key", 30)
    for each in specs:
        log = bed.process(each.name).command.log

        async def replaced() -> bool:
            return "seal_key_changed" in log.read_text()  # noqa: B023 - awaited in the same turn of the loop

        await until(replaced, f"{each.name} to use the new key", 30)
    await together(bed.process(each.name).restart() for each in specs)
    assert await arena.units_not_counted() == 0
    async with arena.load() as load:
        for each in specs:
            await bed.process(each.name).restart()
        await arena.recovers(load, since=time.monotonic())
    await arena.proved()
