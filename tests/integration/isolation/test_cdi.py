"""A node as the GPU Operator leaves it from 25.10 on: its CDI specifications, and runc as the runtime.

Nothing is set for it: the agent finds the specification of NVIDIA's plugin. The kubelet, containerd, runc and
the library are real; the GPU is a stub of NVML and of the CUDA driver.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpushare import contract
from testbed import Bed, until
from testbed.control_plane.api import Object
from testbed.cuda import CudaStub
from testbed.daemons.agent import GpuNode, start_agent
from testbed.nvml import cdi
from tests.support.fixtures.enforced_nodes import (
    IMAGE,
    OPERATORS_FOLDER,
    add_enforced_node,
    write_operators_files,
)
from tests.support.fixtures.gpu_nodes import clear, container, node_object, pod, running
from tests.support.fixtures.isolation import needs_compiler

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module"), needs_compiler]

SLEEPS = "trap exit TERM; sleep infinity & wait $!"
REFUSED = "code=2(cudaErrorMemoryAllocation)"
ALL_GPUS = {"name": contract.ENV_VISIBLE_DEVICES, "value": "all"}


@dataclass(frozen=True)
class OperatorNode:
    """The node, and the stub of its driver."""

    gpu: GpuNode
    cuda: CudaStub


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(bed: Bed, package: Path, archive: Path) -> OperatorNode:
    label = (contract.LABEL_CGPU, "true")
    found, cuda = await add_enforced_node(bed, label, package, [archive], operator=True)
    return OperatorNode(await start_agent(found), cuda)


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_left(bed: Bed, node: OperatorNode) -> AsyncIterator[None]:
    yield
    await clear(bed, node.gpu)


def limited(name: str, *, env: tuple[Object, ...] = (), **more: Any) -> Object:
    """A pod with 2 of 15 units: 2150 MiB."""
    return pod(name, container(2, image=IMAGE, script=SLEEPS, env=list(env)), **more)


async def allocates(bed: Bed, name: str, mib: int) -> str:
    return await bed.kubectl("exec", name, "--", "sh", "-c", f"cuda_malloc -size={mib} 2>&1; true")


async def reach(node: OperatorNode, name: str) -> list[str]:
    """The GPUs in the specification that runc gets."""
    spec = await node.gpu.kubelet.oci_spec(name, "main")
    return [each["path"] for each in spec["linux"]["devices"] if each["path"].startswith("/dev/nvidia")]


async def annotation(node: OperatorNode, name: str) -> str:
    found = await node_object(node.gpu)
    return str(found["metadata"]["annotations"].get(name, ""))


async def test_the_node_says_how_its_containers_get_gpus_and_why(node: OperatorNode) -> None:
    text = await annotation(node, contract.ANN_DEVICE_LIST)
    assert text.startswith("cdi: /var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json names all GPUs")


async def test_a_shared_pod_runs_limited_beside_the_operator(bed: Bed, node: OperatorNode) -> None:
    await bed.create_pods([limited("plain"), limited("greedy", env=(ALL_GPUS,))])
    await asyncio.gather(*(running(bed, name, 60) for name in ("plain", "greedy")))
    for name in ("plain", "greedy"):
        assert await reach(node, name) == [cdi.device_node(0)]
        assert REFUSED in await allocates(bed, name, 2500)
        assert REFUSED not in await allocates(bed, name, 1000)


@pytest.mark.needs("mapped-mounts")
async def test_a_pod_with_a_user_namespace_runs_limited(bed: Bed, node: OperatorNode) -> None:
    await bed.create_pods([limited("userns", hostUsers=False)])
    await running(bed, "userns", 60)
    assert await reach(node, "userns") == [cdi.device_node(0)]
    shown = "read mapped </proc/self/uid_map && echo $mapped"
    inside, on_node, _ = (await bed.kubectl("exec", "userns", "--", "sh", "-c", shown)).split()
    assert inside == "0"
    assert on_node != "0", "root of the container is root of the node"
    assert REFUSED in await allocates(bed, "userns", 2500)
    assert REFUSED not in await allocates(bed, "userns", 1000)


async def test_a_node_that_lost_its_specification_takes_no_pods_until_it_is_back(node: OperatorNode) -> None:
    """As after a reboot, if nothing writes it again: a container of runc would start without a GPU."""
    for file in node.gpu.kubelet.path(OPERATORS_FOLDER).iterdir():
        file.unlink()

    async def closed() -> bool:
        return "have got their GPUs by CDI so far" in await annotation(node, contract.ANN_CLOSED)

    async def opened() -> bool:
        return not await annotation(node, contract.ANN_CLOSED)

    await until(closed, "the node to take no new pods", 60)
    write_operators_files(node.gpu, node.cuda)
    await until(opened, "the node to take pods again", 60)
