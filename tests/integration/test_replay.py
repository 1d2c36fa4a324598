"""The policy replay with a real kube-scheduler, also for pods without GPUs.

kube-scheduler's own scores prefer the node with most free CPU, replay the first one of those that lose least.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from testbed import Bed, SchedulerSpec, SimGpu, SimNode, Testbed, gpu_pod, until
from testbed.control_plane.api import read_text
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]


def entry_for_all_pods(url: str) -> dict[str, Any]:
    """The entry of docs/how-to/configure-the-scheduler.md: scores for all pods, and nothing else."""
    without = ("filterVerb", "preemptVerb", "bindVerb", "managedResources")
    entry = {key: value for key, value in component_config(url).items() if key not in without}
    return entry | {"ignorable": True}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    extender = ExtenderSpec(flags=["--placement=replay"])
    units = component_config(extender.url)
    del units["prioritizeVerb"], units["weight"]
    extenders = [units, entry_for_all_pods(extender.url)]
    async with Testbed(scheduler=SchedulerSpec(extenders=extenders)) as bed:
        await grant(bed)
        await bed.add_nodes(
            [
                SimNode("gpu-a", [SimGpu()], cpu="4"),
                SimNode("gpu-b", [SimGpu()], cpu="64"),
                SimNode("plain", cpu="4"),
            ]
        )
        await start_extender(bed, extender)

        async def leads() -> bool:
            return "gpushare_extender_leader 1.0" in await read_text(f"{extender.ops_url}/metrics")

        await until(leads, "the extender to lead", 60)
        yield bed


async def node_of(bed: Bed, name: str) -> str:
    async def node() -> str | None:
        pod = await bed.api.get(f"/api/v1/namespaces/default/pods/{name}")
        found: str | None = pod["spec"].get("nodeName")
        return found

    found: str = await until(node, f"a node of pod {name}", 60)
    return found


async def test_a_pod_goes_to_the_first_of_the_nodes_that_lose_least(bed: Bed) -> None:
    await bed.create_pods([gpu_pod("small", 4, resources={"cpu": 3})])
    assert await node_of(bed, "small") == "gpu-a"


async def test_a_pod_without_gpus_leaves_the_cpu_of_nodes_with_gpus(bed: Bed) -> None:
    await bed.create_pods([gpu_pod("without", resources={"cpu": 1})])
    assert await node_of(bed, "without") == "plain"
