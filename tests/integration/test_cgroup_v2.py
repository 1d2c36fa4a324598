"""The node agent, the exporter and the library on a node with cgroup v2 and the systemd driver.

The node has its own kernel, so that it is such a node on any machine.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpushare import contract
from testbed import Bed, DevkitError, until
from testbed.control_plane.api import Object
from testbed.daemons.exporter import grant_exporter
from testbed.kubelets import KubeletSpec
from testbed.nvml import GpuProcess
from tests.support.fixtures import enforced_nodes
from tests.support.fixtures.enforced_nodes import IMAGE
from tests.support.fixtures.gpu_nodes import (
    PODS,
    container,
    failed,
    gpu_bed,
    is_over,
    metric,
    owner,
    owners,
    pod,
    remove,
    running,
    until_allocatable,
)
from tests.support.fixtures.isolation import MIB, needs_compiler
from tests.support.fixtures.uml_nodes import (
    CONTEXT_MIB,
    UmlGpuNode,
    add_uml_gpu_node,
    cgroup_of,
    counted,
    memory_limits,
    pid_of,
    record_of,
    region_of,
    start_exporter,
)

pytestmark = [
    pytest.mark.needs("second-kernel"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
    needs_compiler,
]

UNITS = 15
START_S = 60
HOLDER = "holder"
LIMITS_MIB = {"REQUEST": "1024", "LIMIT": "3226"}
"""Soft and hard limit, which drivers hold from branch 615 on."""
HELD_MIB = 3072 + CONTEXT_MIB
USED = "DCGM_CUSTOM_PROCESS_MEM_USED"
COUNTED = "gpushare_container_memory_counted_bytes"
_TOP = "/sys/fs/cgroup/kubepods.slice/"
CLASSES: dict[str, tuple[dict[str, dict[str, str]], str]] = {
    "besteffort": ({}, f"{_TOP}kubepods-besteffort.slice/kubepods-besteffort-pod"),
    "burstable": ({"requests": {"cpu": "10m"}}, f"{_TOP}kubepods-burstable.slice/kubepods-burstable-pod"),
    "guaranteed": ({"limits": {"cpu": "100m", "memory": "64Mi"}}, f"{_TOP}kubepods-pod"),
}
"""Quality-of-service class → resources besides the GPU, and the beginning of the slices of its pods."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    async with gpu_bed() as found:
        await grant_exporter(found.bed)
        yield found.bed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> UmlGpuNode:
    """One V100 of 15 units."""
    package = enforced_nodes.library(tmp_path_factory.mktemp("library"))
    archive = enforced_nodes.image(tmp_path_factory.mktemp("image"))
    spec = KubeletSpec("v2", labels={contract.LABEL_CGPU: "true"}, runtime="nvidia")
    found = await add_uml_gpu_node(bed, spec, package, archive)
    await until_allocatable(found, UNITS, 60)
    return found


def cuda(script: str, units: int, **more: Any) -> Object:
    """A container with programs that allocate GPU memory."""
    return container(units, image=IMAGE, script=f"trap exit TERM; {script} & wait $!", **more)


@pytest_asyncio.fixture(loop_scope="module")
async def holder(bed: Bed, node: UmlGpuNode) -> Object:
    """A pod of 4 units, 4301 MiB, that uses 3072 MiB; all tests share it, or its replacement."""
    if not await bed.api.items(owners("ReplicaSet")):
        main = cuda("cuda_malloc -size=3072 -hold", 4)
        await bed.api.create(owners("ReplicaSet"), owner("ReplicaSet", HOLDER, 1, main))
    return await held(bed, node)


async def held(bed: Bed, node: UmlGpuNode) -> Object:
    """The pod, as soon as the library has counted its memory."""

    async def ready() -> Object | None:
        pods = [
            each for each in await bed.api.items(PODS, labelSelector=f"app={HOLDER}") if not is_over(each)
        ]
        # Also counted, until the next allocation: what processes used that have exited.
        using = [each for each in pods if await counted(node, each) >= HELD_MIB * MIB]
        return using[0] if using else None

    found = await until(ready, "the memory of the pod to be counted", START_S)
    assert found is not None
    return found


async def start(bed: Bed, name: str, main: Object, **spec: Any) -> Object:
    await bed.create_pods([pod(name, main, **spec)])
    return await running(bed, name, START_S)


async def inside(bed: Bed, found: Object, command: str) -> list[str]:
    """The last lines of the output of a command in a pod, and its exit code."""
    script = f"({command}) 2>&1; echo $?"
    output = await bed.kubectl("exec", found["metadata"]["name"], "--", "sh", "-c", script)
    return output.splitlines()[-2:]


async def until_pods(node: UmlGpuNode, count: int, **labels: str) -> None:
    """Wait until the agent counts that many pods with GPUs."""

    async def reached() -> bool:
        return await metric(node, "gpushare_device_plugin_pods", **labels) == count

    await until(reached, f"the agent to count {count} pods {labels}", 60)


async def test_the_kubelet_requires_cgroup_v2_and_uses_the_systemd_driver(bed: Bed, node: UmlGpuNode) -> None:
    found = await bed.api.get(f"/api/v1/nodes/{node.name}/proxy/configz")
    config = found["kubeletconfig"]
    assert (config["failCgroupV1"], config["cgroupDriver"]) == (True, "systemd")
    assert await node.machine.run_text(["stat", "-fc", "%T", "/sys/fs/cgroup"]) == "cgroup2fs\n"


async def test_pods_of_all_classes_get_their_gpu_until_they_are_gone(bed: Bed, node: UmlGpuNode) -> None:
    before = len((await record_of(node))["allocations"])
    await bed.create_pods([pod(name, _of_class(**more)) for name, (more, _) in CLASSES.items()])
    for name, (_, slice_) in CLASSES.items():
        found = await running(bed, name, START_S)
        assert (await cgroup_of(node, found)).parent == Path(f"{slice_}{_escaped(found)}.slice")
    uids = {each["uid"] for each in (await record_of(node))["allocations"]}
    assert len(uids) == before + len(CLASSES)
    await remove(bed, *CLASSES)
    await until_pods(node, before)


def _of_class(**more: dict[str, str]) -> Object:
    main = container(3)
    for key, values in more.items():
        main["resources"][key] = {**main["resources"].get(key, {}), **values}
    return main


def _escaped(found: Object) -> str:
    """The UID of a pod in the name of its slice."""
    return str(found["metadata"]["uid"]).replace("-", "_")


@pytest.mark.usefixtures("holder")
async def test_a_gpu_is_not_reallocated_while_the_slice_of_a_deleted_pod_remains(
    bed: Bed, node: UmlGpuNode
) -> None:
    volume = {"name": "scratch", "emptyDir": {"medium": "Memory"}}
    mount = {"name": "scratch", "mountPath": "/scratch"}
    found = await start(bed, "leaves", container(8, volumeMounts=[mount]), volumes=[volume])
    group = (await cgroup_of(node, found)).parent
    async with busy(node, found, "scratch"):
        await bed.kubectl("delete", "pod", "leaves", "--force", "--grace-period=0")
        await until_empty(node, group)
        await until_pods(node, 1, state="leaving")
        await bed.create_pods([pod("too-soon", container(8))])
        message = (await failed(bed, "too-soon", START_S))["status"]["message"]
        assert "default/too-soon" in message
        assert "3 of 15 free on GPU 0" in message
    await until_pods(node, 0, state="leaving")
    await start(bed, "in-time", container(8))
    await remove(bed, "too-soon", "in-time")


@asynccontextmanager
async def busy(node: UmlGpuNode, found: Object, volume: str) -> AsyncIterator[None]:
    """A tmpfs that the kubelet cannot unmount, so it does not remove the slice of the pod."""
    uid = found["metadata"]["uid"]
    file = f"/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/{volume}/held"
    argv = ["systemd-run", "--quiet", "--unit=busy", "sh", "-c", f"exec 9>{file}; exec sleep infinity"]
    await node.machine.run_text(argv)

    async def opened() -> bool:
        with suppress(DevkitError):
            return await node.machine.read(file) == b""
        return False

    await until(opened, "the volume to be busy")
    try:
        yield
    finally:
        await node.machine.unit("busy").stop()


async def until_empty(node: UmlGpuNode, group: Path) -> None:
    """Wait until a cgroup has no process."""

    async def empty() -> bool:
        return b"populated 0" in await node.machine.read(f"{group}/cgroup.events")

    await until(empty, "the processes of the pod to end", START_S)


async def test_the_library_holds_the_limit_of_a_pod(bed: Bed, node: UmlGpuNode, holder: Object) -> None:
    assert (await inside(bed, holder, "cuda_malloc -size=512"))[-1] == "0"
    refusal, code = await inside(bed, holder, "cuda_malloc -size=2048")
    assert "code=2(cudaErrorMemoryAllocation)" in refusal
    assert code == "1"
    use = (await region_of(node, holder)).cards[0]
    assert (use.limit, use.refusals) == (4301 * MIB, 1)


async def test_the_toolkit_sets_the_limits_of_a_pod_in_the_driver_before_it_starts(
    bed: Bed, node: UmlGpuNode
) -> None:
    # The agent rejects these variables in ``env``, and does not see those of a ConfigMap.
    literals = [f"--from-literal=NVIDIA_GPU_MEMORY_{name}={mib}" for name, mib in LIMITS_MIB.items()]
    await bed.kubectl("create", "configmap", "driver-limits", *literals)
    env_from = [{"configMapRef": {"name": "driver-limits"}}]
    found = await start(bed, "driver-held", container(3, envFrom=env_from))
    limits = await memory_limits(node)
    assert limits == {str(await cgroup_of(node, found)): (1024 * MIB, 3226 * MIB)}
    await remove(bed, "driver-held")


async def test_the_exporter_joins_processes_to_their_containers(node: UmlGpuNode, holder: Object) -> None:
    await node.processes(GpuProcess(await pid_of(node, holder), used_mib=3001, sm=23))
    exporter = await start_exporter(node, "--interval-seconds=1")
    name = (holder["metadata"]["name"], "main")

    async def joined() -> bool:
        return await exporter.values(USED, "PodName", "ContainerName") == {name: 3001}

    await until(joined, "the process to be joined", 60)
    assert await exporter.values(COUNTED, "pod", "container") == {name: HELD_MIB * MIB}


@pytest.mark.usefixtures("holder")
async def test_a_container_without_memory_is_killed_whole_and_its_gpu_memory_is_free(
    bed: Bed, node: UmlGpuNode
) -> None:
    greedy = "cuda_malloc -size=1024 -hold & sleep 3; tail /dev/zero"
    main = cuda(f"sh -c '{greedy}'", 4)
    main["resources"]["limits"]["memory"] = "64Mi"
    await bed.create_pods([pod("greedy", main, restartPolicy="Never")])
    found = await failed(bed, "greedy", START_S)
    ended = found["status"]["containerStatuses"][0]["state"]["terminated"]
    # The kernel kills the whole group, not only the process that asked for memory.
    assert ended["exitCode"] == 137
    await until_pods(node, 1)
    await remove(bed, "greedy")


async def test_a_killed_agent_keeps_allocations_and_limits(node: UmlGpuNode, holder: Object) -> None:
    before, limited = await record_of(node), await region_of(node, holder)
    await node.agent.kill()
    await node.agent.start()
    await node.until_ready()
    await until_allocatable(node, UNITS, START_S)
    assert await record_of(node) == before
    await until_pods(node, 1)
    assert (await region_of(node, holder)).cards == limited.cards


@pytest.mark.usefixtures("holder")
async def test_after_a_reboot_a_workload_has_its_gpu_and_its_limit_again(bed: Bed, node: UmlGpuNode) -> None:
    await node.machine.reboot()
    await node.until_ready()
    await until_allocatable(node, UNITS, START_S)
    found = await held(bed, node)
    refusal, _ = await inside(bed, found, "cuda_malloc -size=2048")
    assert "code=2(cudaErrorMemoryAllocation)" in refusal

    async def only_this_one() -> bool:
        return [each["uid"] for each in (await record_of(node))["allocations"]] == [found["metadata"]["uid"]]

    # A pod that the kubelet refused before the agent was there leaves a little later.
    await until(only_this_one, "the record to have this pod only", START_S)
