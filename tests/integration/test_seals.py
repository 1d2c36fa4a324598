"""Bind annotations are trusted only if an extender wrote them and they are unchanged since."""

import json
from typing import Any

import pytest

from testbed import Bed, Card, SchedulerSpec, SimNode, Testbed, gpu_pod, until
from testbed.control_plane.api import Object, read_text
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from tests.fixtures.gpu_nodes import bound
from tests.support.history import cards_of

pytestmark = pytest.mark.integration

QUICK = ("--lease-duration=4", "--renew-deadline=3", "--retry-period=0.5", "--bind-timeout=2")


async def used(spec: ExtenderSpec, node: str = "n") -> list[int]:
    found: dict[str, Any] = json.loads(await read_text(f"{spec.url}/inspect/{node}"))
    return [device["usedGPU"] for device in found["nodes"][0]["devs"]] if found["nodes"] else []


async def until_used(spec: ExtenderSpec, *units: int) -> None:
    async def met() -> bool:
        return await used(spec) == list(units)

    await until(met, f"{units} used on the GPUs")


async def placed(bed: Bed, name: str, units: int) -> Object:
    await bed.create_pods([gpu_pod(name, units)])
    return await bound(bed, name)


def claiming(card: int, units: int) -> dict[str, str]:
    return {
        "ALIYUN_COM_GPU_MEM_IDX": str(card),
        "ALIYUN_COM_GPU_MEM_POD": str(units),
        "scheduler.framework.gpushare.allocation": json.dumps({"0": {str(card): units}}),
    }


async def test_an_edited_annotation_counts_on_every_gpu_after_a_restart_and_an_unedited_one_on_its_gpu() -> (
    None
):
    spec = ExtenderSpec(flags=QUICK)
    async with Testbed(scheduler=SchedulerSpec(extenders=[component_config(spec.url)])) as bed:
        await grant(bed)
        await start_extender(bed, spec)
        await bed.add_nodes([SimNode("n", [Card(), Card()])])
        honest, sly = await placed(bed, "honest", 3), await placed(bed, "sly", 5)
        assert (cards_of(honest), cards_of(sly)) == ({0: 3}, {0: 5})
        await bed.api.patch(
            "/api/v1/namespaces/default/pods/sly", {"metadata": {"annotations": claiming(1, 5)}}
        )
        await bed.kill(spec.name)
        await bed.start(spec.name)
        await until_used(spec, 3 + 5, 5)


async def test_a_pod_placed_by_node_name_with_valid_annotations_counts_on_every_gpu() -> None:
    spec = ExtenderSpec(flags=QUICK)
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        await grant(bed)
        await start_extender(bed, spec)
        await bed.add_nodes([SimNode("n", [Card(), Card()])])
        await bed.create_pods([gpu_pod("forged", 10, nodeName="n", annotations=claiming(1, 10))])
        await until_used(spec, 10, 10)


async def test_annotations_of_pods_bound_before_there_was_a_key_are_trusted() -> None:
    spec = ExtenderSpec(flags=QUICK)
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        await grant(bed)
        await bed.add_nodes([SimNode("n", [Card(), Card()])])
        old = await bed.create_pods([gpu_pod("old", 10, nodeName="n", annotations=claiming(1, 10))])

        async def a_second_later() -> bool:
            """Creation times have a resolution of one second."""
            probe = await bed.api.create(
                "/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "clock-"}}
            )
            return bool(probe["metadata"]["creationTimestamp"] > old[0]["metadata"]["creationTimestamp"])

        await until(a_second_later, "the clock of the API server")
        await start_extender(bed, spec)
        await until_used(spec, 0, 10)


async def test_a_second_replica_trusts_binds_of_the_first() -> None:
    first, second = ExtenderSpec("first", flags=QUICK), ExtenderSpec("second", flags=QUICK)
    async with Testbed(scheduler=SchedulerSpec(extenders=[component_config(first.url)])) as bed:
        await grant(bed)
        await start_extender(bed, first)
        await start_extender(bed, second)
        await bed.add_nodes([SimNode("n", [Card(), Card()])])
        await placed(bed, "a", 12)
        await placed(bed, "b", 4)
        await until_used(second, 12, 4)
