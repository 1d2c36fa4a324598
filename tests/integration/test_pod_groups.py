"""Pod groups whole: the gang scheduling of kube-scheduler with the extender, behind its gates."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import pytest
import pytest_asyncio

from gpushare.contract import EXTENDER_NAME
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, Testbed, gpu_pod, until
from testbed.control_plane.api import Object
from testbed.daemons.extender import component_config, grant, start_extender
from testbed.programs.binaries import release
from tests.support.fixtures.extenders import replica, until_leads
from tests.support.metrics import total

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

PODS: Final = "/api/v1/namespaces/default/pods"
API: Final = "/apis/scheduling.k8s.io"
BINDS: Final = "gpushare_extender_binds_total"
GATES: Final = ("GenericWorkload", "GangScheduling") if release() == "1.36" else ("GenericWorkload",)
"""1.37 has one gate for both."""
API_FLAGS: Final = ("--feature-gates=GenericWorkload=true", "--runtime-config=api/all=true")


LEADER, FOLLOWER = replica(lease=EXTENDER_NAME), replica(lease=EXTENDER_NAME)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    """The scheduler asks the follower, which knows no plan."""
    scheduler = SchedulerSpec(extenders=[component_config(FOLLOWER.url)], gates=GATES)
    async with Testbed(scheduler=scheduler, api_flags=API_FLAGS) as found:
        await grant(found)
        await start_extender(found, LEADER)
        await until_leads(LEADER)
        await start_extender(found, FOLLOWER)
        yield found


def pod_of(name: str, units: int, node: str, group: str = "") -> Object:
    found = gpu_pod(name, units)
    found["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    if group:
        found["spec"]["schedulingGroup"] = {"podGroupName": group}
    return found


async def create_group(bed: Bed, group: str, sizes: Sequence[int], node: str) -> None:
    """A gang of pods with these units, which all have to run."""
    served = (await bed.api.get(API))["versions"]
    version = next(each["version"] for each in served if each["version"] != "v1")
    await bed.api.create(
        f"{API}/{version}/namespaces/default/podgroups",
        {
            "apiVersion": f"scheduling.k8s.io/{version}",
            "kind": "PodGroup",
            "metadata": {"name": group, "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": len(sizes)}}},
        },
    )
    await bed.create_pods(
        pod_of(f"{group}-{number}", units, node, group) for number, units in enumerate(sizes)
    )


async def members(bed: Bed, group: str) -> list[Object]:
    pods = await bed.api.items(PODS)
    return [pod for pod in pods if (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") == group]


def waits(pod: Object) -> bool:
    """Whether the scheduler has found no place for the pod."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


async def bound(bed: Bed, group: str) -> int:
    return sum("nodeName" in pod["spec"] for pod in await members(bed, group))


async def until_bound(bed: Bed, group: str, count: int) -> None:
    async def all_bound() -> bool:
        return await bound(bed, group) == count

    await until(all_bound, f"{count} bound pods of {group}", 60)


async def until_tried(bed: Bed, *groups: str) -> None:
    async def tried() -> bool:
        pods = [pod for group in groups for pod in await members(bed, group)]
        return all("nodeName" in pod["spec"] or waits(pod) for pod in pods)

    await until(tried, f"the pods of {groups} to be bound or refused", 60)


async def test_a_group_that_fits_the_node_and_no_gpus_waits_whole(bed: Bed) -> None:
    """20 units are free, 14 and 6: the totals fit two members of 10, the GPUs one."""
    await bed.add_nodes([SimNode("split", [SimGpu(units=14), SimGpu(units=14)])])
    await bed.create_pods([pod_of("filler", 8, "split")])

    async def filled() -> bool:
        return "nodeName" in (await bed.api.get(f"{PODS}/filler"))["spec"]

    await until(filled, "the pod that fills a GPU")
    await create_group(bed, "split", (10, 10), "split")
    await until_tried(bed, "split")
    assert await bound(bed, "split") == 0
    await bed.api.delete(f"{PODS}/filler")
    await until_bound(bed, "split", 2)


async def forwarded(verb: str) -> float:
    """The number of requests that the follower forwarded with success."""
    return await total(FOLLOWER.ops_url, "gpushare_extender_forwarded_requests_total", verb=verb, result="ok")


async def test_a_group_that_fits_is_bound_whole(bed: Bed) -> None:
    await bed.add_nodes([SimNode("free", [SimGpu(units=14), SimGpu(units=14)])])
    await create_group(bed, "free", (4, 4), "free")
    await until_bound(bed, "free", 2)
    assert await forwarded("filter") >= 2

    async def counted() -> bool:
        return 2 <= await forwarded("bind") == await total(LEADER.ops_url, BINDS, reason="bound")

    # The API has a bind before the replicas have its answer.
    await until(counted, "the follower to count each bind of the leader")
    assert await total(FOLLOWER.ops_url, BINDS, reason="bound") == 0


async def test_a_group_larger_than_the_node_waits_whole(bed: Bed) -> None:
    await bed.add_nodes([SimNode("small", [SimGpu(units=14), SimGpu(units=14)])])
    await create_group(bed, "small", (10, 10, 10), "small")
    await until_tried(bed, "small")
    assert await bound(bed, "small") == 0


async def test_of_two_groups_that_compete_one_runs_whole(bed: Bed) -> None:
    await bed.add_nodes([SimNode("rivals", [SimGpu(units=14), SimGpu(units=14)])])
    for group in ("first", "second"):
        await create_group(bed, group, (10, 10), "rivals")
    await until_tried(bed, "first", "second")
    found = {group: await bound(bed, group) for group in ("first", "second")}
    assert sorted(found.values()) == [0, 2]
    for pod in await members(bed, max(found, key=lambda group: found[group])):
        await bed.api.delete(f"{PODS}/{pod['metadata']['name']}")
    await until_bound(bed, min(found, key=lambda group: found[group]), 2)


async def test_a_group_waits_for_a_leader_and_is_then_bound_whole(bed: Bed) -> None:
    await bed.add_nodes([SimNode("next", [SimGpu(units=14), SimGpu(units=14)])])
    await bed.kill(LEADER.name)
    await create_group(bed, "next", (10, 10), "next")
    await until_tried(bed, "next")
    assert await bound(bed, "next") in (0, 2)
    await until_leads(FOLLOWER)
    await until_bound(bed, "next", 2)
