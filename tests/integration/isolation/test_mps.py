"""A node of mode mps: real kubelet, containerd, agent, library and MPS daemon.

The control daemon is the FAKE of ``testbed.mps``, the GPU a stub of NVML and of the CUDA driver: the
behaviour of MPS on a GPU is not tested here.
"""

import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from devkit.process import Process
from gpushare import contract
from gpushare.mps.layout import logs_of, pipes_of, ready_lock_of
from gpushare.mps.ready_lock import is_ready
from gpushare.mpsd.control import environment
from testbed import Bed, mps, until
from testbed.daemons.agent import GpuNode, start_agent
from tests.support.fixtures.enforced_nodes import IMAGE, add_enforced_node
from tests.support.fixtures.gpu_nodes import (
    clear,
    container,
    failed,
    node_object,
    pod,
    remove,
    running,
    start_pods,
    until_event,
)
from tests.support.fixtures.isolation import needs_compiler
from tests.support.fixtures.nvml import compute_mode
from tests.support.metrics import samples

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module"), needs_compiler]

EXCLUSIVE_PROCESS = "3"
FLAGS = ("--interval-seconds=0.2", f"--shm={contract.MPS_SHM}")
"""Where the daemon is a container, this directory is a mount."""
REFUSED = "cudaErrorMemoryAllocation"
ONE_USER: dict[str, Any] = {"securityContext": {"runAsUser": 0}}
"""On a node of mode mps, a pod needs a user ID."""


@dataclass
class Node:
    """The node, and the MPS daemon on it."""

    gpu: GpuNode
    mps: Process

    @property
    def state(self) -> Path:
        """The directory of pipes and logs, on this machine."""
        return self.gpu.kubelet.path(contract.MPS_STATE)

    @property
    def uuid(self) -> str:
        return self.gpu.stub.uuid(0)

    @property
    def up(self) -> bool:
        return is_ready(ready_lock_of(self.state, self.uuid))

    @property
    def compute_mode(self) -> str:
        return compute_mode(self.gpu.stub)

    async def metric(self, name: str) -> float:
        """A metric of the MPS daemon for the GPU."""
        (found,) = await samples(f"http://{self.gpu.kubelet.address}:{contract.MPS_PORT}", name)
        return found.value

    async def send(self, command: str, program: Path) -> None:
        """Send a command to the control daemon of the GPU, as an administrator does."""
        env = environment({}, Path(contract.MPS_STATE), self.uuid)
        variables = [f"{name}={value}" for name, value in env.items()]
        await self.gpu.kubelet.run_text(["sh", "-c", f"echo {command} | env {' '.join(variables)} {program}"])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake of the control daemon."""
    return mps.install(tmp_path_factory.mktemp("bin"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(bed: Bed, package: Path, archive: Path, program: Path) -> AsyncIterator[Node]:
    """A node of mode mps with one V100 and the MPS daemon."""
    found, _ = await add_enforced_node(bed, (contract.LABEL_MODE, "mps"), package, [archive])
    found.kubelet.path(contract.MPS_STATE).mkdir()
    daemon = await found.kubelet.spawn(
        contract.MPS_NAME,
        [sys.executable, "-m", "gpushare", "mps", *FLAGS],
        env={**found.stub.env, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        ready=f"http://{found.kubelet.address}:{contract.MPS_PORT}/readyz",
    )
    gpu = await start_agent(found, ["--proc-root=/proc"])
    yield Node(gpu, daemon)
    await clear(bed, gpu)


async def inside(bed: Bed, name: str, command: str) -> str:
    """The output of a command in a container."""
    return await bed.kubectl("exec", name, "--", "sh", "-c", f"({command}) 2>&1; true")


async def test_a_container_is_limited_by_mps_and_by_the_library(bed: Bed, node: Node) -> None:
    await start_pods(bed, pod("part", container(4, core=25, image=IMAGE), **ONE_USER), timeout_s=60)
    env = (await inside(bed, "part", "env")).splitlines()
    for line in (
        f"{contract.ENV_MPS_PIPES}={contract.MPS_INSIDE}",
        f"{contract.ENV_MPS_PERCENT}=25",
        f"{contract.ENV_MPS_MEMORY}=0=4301M",
    ):
        assert line in env
    assert "limit_mib=4301 " in await inside(bed, "part", f"cat {contract.ISOLATION_INSIDE}/limit")
    assert REFUSED in await inside(bed, "part", "cuda_malloc -size=5000")
    # The pipes of the control daemon, and the shared memory.
    assert "is there" in await inside(bed, "part", f"test -S {contract.MPS_INSIDE}/control && echo is there")
    await inside(bed, "part", f"echo from inside >{contract.SHM}/file")
    file = node.gpu.kubelet.path(contract.MPS_SHM) / "file"
    assert file.read_text() == "from inside\n"
    assert f"Start for card {node.uuid}" in (logs_of(node.state, node.uuid) / "control.log").read_text()
    assert node.compute_mode == EXCLUSIVE_PROCESS
    await remove(bed, "part")


async def test_a_control_daemon_that_dies_is_restarted_at_the_same_path(
    bed: Bed, node: Node, program: Path
) -> None:
    await start_pods(bed, pod("stays", container(1, core=5, image=IMAGE), **ONE_USER), timeout_s=60)
    before = await node.metric("gpushare_mps_starts_total")
    await node.send("fake_client 4711", program)
    await until(lambda: has(node, "gpushare_mps_clients", 1), "the client to be counted")
    await node.send("fake_die 1", program)
    await until(lambda: has(node, "gpushare_mps_starts_total", before + 1), "a new start")
    await until(lambda: has(node, "gpushare_mps_up", 1), "the control daemon to be up")
    assert "control_down" in node.mps.command.log.read_text()
    assert "is there" in await inside(bed, "stays", f"test -S {contract.MPS_INSIDE}/control && echo is there")
    await remove(bed, "stays")


async def has(node: Node, name: str, value: float) -> bool:
    return await node.metric(name) == value


async def test_while_the_daemon_is_down_pods_wait_and_run_once_it_is_ready(bed: Bed, node: Node) -> None:
    node.mps.kill()
    await node.mps.wait()

    async def closed() -> bool:
        cards = json.loads((await node_object(node.gpu))["metadata"]["annotations"][contract.ANN_CARDS])
        return any("MPS control daemon" in each["closed"] for each in cards)

    await until(closed, "the GPU to be closed")
    await bed.create_pods([pod("waits", container(4, core=25, image=IMAGE), **ONE_USER)])
    await until_event(bed, "waits", lambda text: "until its MPS control daemon is ready" in text)
    await node.mps.start()
    await running(bed, "waits", 60)
    assert (pipes_of(node.state, node.uuid) / "control").exists()
    await remove(bed, "waits")


async def test_a_pod_that_is_on_the_node_already_is_rejected_with_the_reason(bed: Bed, node: Node) -> None:
    node.mps.kill()
    await node.mps.wait()
    here = {**ONE_USER, "nodeName": node.gpu.name}
    await bed.create_pods([pod("refused", container(4, core=25, image=IMAGE), **here)])
    status = (await failed(bed, "refused", 60))["status"]
    await node.mps.start()
    assert status["reason"] == "UnexpectedAdmissionError"
    for part in ("container main", f"node {node.gpu.name}", f"GPU {node.uuid}", contract.MPS_NAME):
        assert part in status["message"]
    await remove(bed, "refused")
