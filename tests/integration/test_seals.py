"""Bind annotations are trusted only if an extender wrote them and they are unchanged since."""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from gpushare.contract import ANN_SEAL, EXTENDER_NAME
from gpushare.errors import ApiError
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, gpu_pod, until
from testbed.control_plane.api import Object, read_text
from testbed.control_plane.layout import COMPONENTS
from testbed.daemons import rights
from testbed.daemons.extender import LEASES, ExtenderSpec, component_config, grant, start_extender
from tests.support.fixtures.extenders import QUICK
from tests.support.fixtures.gpu_nodes import bound
from tests.support.fixtures.simulated import clear
from tests.support.history import cards_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "/api/v1/namespaces/kube-system/secrets/gpushare-schd-extender-seal"  # noqa: S105 - a path
NUMBERS = count()


@pytest.fixture(scope="module")
def spec() -> ExtenderSpec:
    """The extender that the scheduler calls; each test starts it."""
    return ExtenderSpec(flags=QUICK)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared(clean_bed: Bed, spec: ExtenderSpec) -> Bed:
    await clean_bed.restart_scheduler(SchedulerSpec(extenders=[component_config(spec.url)]))
    return clean_bed


@pytest_asyncio.fixture(loop_scope="session")
async def bed(shared: Bed) -> AsyncIterator[Bed]:
    """As before the first extender: the Secret has no key, and there is no holder of the Lease."""
    for each in (SECRET, f"{LEASES}/{EXTENDER_NAME}"):
        with suppress(ApiError):
            await shared.api.delete(each)
    await grant(shared)
    yield shared
    for name in shared.processes.keys() - COMPONENTS:
        await shared.stop(name)
    await clear(shared)


@pytest_asyncio.fixture(loop_scope="session")
async def node(bed: Bed) -> str:
    """A node with two GPUs and a new name."""
    name = f"n-{next(NUMBERS)}"
    await bed.add_nodes([SimNode(name, [SimGpu(), SimGpu()])])
    return name


async def used(spec: ExtenderSpec, node: str) -> list[int]:
    found: dict[str, Any] = json.loads(await read_text(f"{spec.url}/inspect/{node}"))
    return [device["usedGPU"] for device in found["nodes"][0]["devs"]] if found["nodes"] else []


async def until_used(spec: ExtenderSpec, node: str, *units: int) -> None:
    async def met() -> bool:
        return await used(spec, node) == list(units)

    await until(met, f"{units} used on the GPUs")


async def placed(bed: Bed, name: str, units: int) -> Object:
    await bed.create_pods([gpu_pod(name, units)])
    return await bound(bed, name)


async def a_second_after(bed: Bed, made: Object) -> None:
    """Wait until new objects are younger: creation times have a resolution of one second."""

    async def later() -> bool:
        probe = await bed.api.create(
            "/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "clock-"}}
        )
        return bool(probe["metadata"]["creationTimestamp"] > made["metadata"]["creationTimestamp"])

    await until(later, "the clock of the API server")


def claiming(card: int, units: int) -> dict[str, str]:
    return {
        "ALIYUN_COM_GPU_MEM_IDX": str(card),
        "ALIYUN_COM_GPU_MEM_POD": str(units),
        "scheduler.framework.gpushare.allocation": json.dumps({"0": {str(card): units}}),
    }


async def test_an_edited_annotation_counts_on_every_gpu_after_a_restart_and_an_unedited_one_on_its_gpu(
    bed: Bed, spec: ExtenderSpec, node: str
) -> None:
    await start_extender(bed, spec)
    honest, sly = await placed(bed, "honest", 3), await placed(bed, "sly", 5)
    assert (cards_of(honest), cards_of(sly)) == ({0: 3}, {0: 5})
    await bed.api.patch("/api/v1/namespaces/default/pods/sly", {"metadata": {"annotations": claiming(1, 5)}})
    await bed.kill(spec.name)
    await bed.start(spec.name)
    await until_used(spec, node, 3 + 5, 5)


async def test_a_pod_placed_by_node_name_with_valid_annotations_counts_on_every_gpu(
    bed: Bed, spec: ExtenderSpec, node: str
) -> None:
    await start_extender(bed, spec)
    await bed.create_pods([gpu_pod("forged", 10, nodeName=node, annotations=claiming(1, 10))])
    await until_used(spec, node, 10, 10)


async def test_annotations_of_pods_bound_before_there_was_a_key_are_trusted(
    bed: Bed, spec: ExtenderSpec, node: str
) -> None:
    (old,) = await bed.create_pods([gpu_pod("old", 10, nodeName=node, annotations=claiming(1, 10))])
    await a_second_after(bed, old)
    await start_extender(bed, spec)
    await until_used(spec, node, 0, 10)


async def test_a_second_replica_trusts_binds_of_the_first(bed: Bed, spec: ExtenderSpec, node: str) -> None:
    second = ExtenderSpec("second", flags=QUICK)
    await start_extender(bed, spec)
    await start_extender(bed, second)
    await placed(bed, "a", 12)
    await placed(bed, "b", 4)
    await until_used(second, node, 12, 4)


async def key_of(bed: Bed) -> str | None:
    """The key as it is in the Secret; None if it has none."""
    found: str | None = (await bed.api.get(SECRET)).get("data", {}).get("key")
    return found


async def test_a_lost_overwritten_or_remade_secret_closes_no_gpu(
    bed: Bed, spec: ExtenderSpec, node: str
) -> None:
    """Node simulated, so no agent publishes allocations: as on a node of the Aliyun plugin."""
    await start_extender(bed, spec)
    assert cards_of(await placed(bed, "first", 12)) == {0: 12}
    first = await key_of(bed)
    assert first
    await bed.apply(rights.of_extender())
    assert await key_of(bed) == first, "an update of the stack keeps the key"

    await bed.api.delete(SECRET)
    await until(lambda: key_of(bed), "the extender to write the key that it knows")
    assert await key_of(bed) == first
    await bed.kill(spec.name)
    await bed.start(spec.name)
    await until_used(spec, node, 12, 0)

    other = "b3RoZXI="
    await bed.kill(spec.name)
    await bed.api.delete(SECRET)
    secret = {"metadata": {"name": SECRET.rpartition("/")[2]}, "data": {"key": other}}
    await bed.api.create(SECRET.rpartition("/")[0], secret)
    await bed.start(spec.name)
    await until_used(spec, node, 12, 0)
    second = await placed(bed, "second", 4)
    assert cards_of(second) == {1: 4}
    await a_second_after(bed, second)

    await bed.kill(spec.name)
    await bed.api.delete(SECRET)
    await bed.start(spec.name)
    await until_used(spec, node, 12, 4)
    assert await key_of(bed) not in (None, first, other)


async def test_with_an_unusable_secret_nothing_is_sealed_until_it_is_deleted(
    bed: Bed, spec: ExtenderSpec, node: str
) -> None:
    unusable = {"metadata": {"name": SECRET.rpartition("/")[2]}, "immutable": True}
    await bed.api.create(SECRET.rpartition("/")[0], unusable)
    await start_extender(bed, spec)
    ready = f"{spec.ops_url}/readyz"
    assert "ok\ndegraded: bind annotations are accepted without a seal: " in await read_text(ready)
    assert "gpushare-schd-extender-seal" in await read_text(ready)
    unsealed = await placed(bed, "unsealed", 12)
    assert ANN_SEAL not in unsealed["metadata"]["annotations"]
    await a_second_after(bed, unsealed)
    await bed.api.delete(SECRET)

    async def recovered() -> bool:
        return await read_text(ready) == "ok"

    await until(recovered, "the extender to seal")
    assert ANN_SEAL in (await placed(bed, "sealed", 4))["metadata"]["annotations"]
    await bed.kill(spec.name)
    await bed.start(spec.name)
    await until_used(spec, node, 12, 4)
