"""The MPS daemon as the stack deploys it: from its image, by its DaemonSet, with no other capabilities.

The control daemon is the FAKE of ``testbed.mps``, which comes into the container as the real one does: by
NVIDIA's runtime. The GPU is a stub of NVML.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from components.config import Mps
from components.manifests import mps as manifests
from components.render import as_yaml
from gpushare import contract
from gpushare.mps.layout import pipes_of, ready_lock_of
from gpushare.mps.ready_lock import is_ready
from gpushare.mpsd.control import PROGRAM
from release import Images, ensure
from testbed import Bed, SchedulerSpec, Testbed, mps, until
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet
from testbed.kubelets.services import load
from testbed.nvml import NvmlStub, card, cdi
from tests.support.fixtures.nvml import compute_mode

pytestmark = [
    pytest.mark.needs("kubelet", "images"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
]

PODS = "/api/v1/namespaces/kube-system/pods"
DEFAULT, EXCLUSIVE_PROCESS = "0", "3"
SLOW_S = 60


@dataclass
class Node:
    """A node of mode mps with one V100, and no agent: only MPS uses the GPU."""

    bed: Bed
    kubelet: KubeletNode
    stub: NvmlStub

    @property
    def uuid(self) -> str:
        return self.stub.uuid(0)

    @property
    def up(self) -> bool:
        """Whether the control daemon is ready, as the agent checks it before an allocation."""
        return is_ready(ready_lock_of(self.kubelet.path(contract.MPS_STATE), self.uuid))

    @property
    def compute_mode(self) -> str:
        return compute_mode(self.stub)

    async def pod(self) -> str:
        """The name of the DaemonSet's only pod."""
        (found,) = await self.bed.api.items(PODS)
        return str(found["metadata"]["name"])

    async def metric(self, name: str) -> float:
        """A metric of the MPS daemon for the GPU."""
        path = f"{PODS}/{await self.pod()}:{contract.MPS_PORT}/proxy/metrics"
        text = await self.bed.kubectl("get", "--raw", path)
        return float(next(line for line in text.splitlines() if line.startswith(f"{name}{{")).split()[-1])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def images() -> Images:
    return await ensure()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(images: Images, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    program = mps.install(tmp_path_factory.mktemp("bin"), "/usr/bin/env python3")
    async with Testbed(kwok=False, scheduler=SchedulerSpec()) as bed:
        stub = NvmlStub(bed.folder / "nvml", era=580, cards=[card("V100")])
        labels = {contract.LABEL_MODE: "mps"}
        files = {cdi.FILE: with_control(stub, program)}
        kubelet = await add_kubelet(bed, KubeletSpec("v100", labels=labels, runtime="nvidia", files=files))
        await load(kubelet, images)
        yield Node(bed, kubelet, stub)


def with_control(stub: NvmlStub, program: Path) -> str:
    """The CDI specification, with the control daemon and a stub that stores compute modes."""
    spec = json.loads(cdi.specification(stub))
    mounts = spec["containerEdits"]["mounts"]
    for mount in mounts:
        mount["options"] = ["rw", *mount["options"][1:]]
    mounts.append({**mounts[0], "hostPath": str(program), "containerPath": f"/usr/bin/{PROGRAM}"})
    return json.dumps(spec)


async def test_the_daemon_set_starts_mps_on_a_gpu_restarts_its_daemon_and_releases_the_gpu(
    node: Node, images: Images
) -> None:
    objects = manifests.objects(Mps(image=images.references["device-plugin"]))
    await node.bed.apply(as_yaml(objects))
    await until(lambda: is_up(node), "the control daemon to be up", SLOW_S)
    assert node.compute_mode == EXCLUSIVE_PROCESS
    assert (pipes_of(node.kubelet.path(contract.MPS_STATE), node.uuid) / "control").is_socket()
    assert await node.metric("gpushare_mps_starts_total") == 1

    pipes = pipes_of(Path(contract.MPS_STATE), node.uuid)
    die = f"echo fake_die 1 | CUDA_MPS_PIPE_DIRECTORY={pipes} {PROGRAM}"
    await node.bed.kubectl(
        "exec", "--namespace=kube-system", await node.pod(), "--", "sh", "-c", f"{die}; true"
    )
    await until(lambda: has(node, "gpushare_mps_starts_total", 2), "a new start", SLOW_S)
    await until(lambda: is_up(node), "the control daemon to be up again", SLOW_S)

    await node.bed.kubectl("delete", "daemonset", "--namespace=kube-system", contract.MPS_NAME)
    await until(lambda: is_released(node), "the GPU to be released", SLOW_S)


async def is_up(node: Node) -> bool:
    return node.up


async def has(node: Node, name: str, value: float) -> bool:
    return await node.metric(name) == value


async def is_released(node: Node) -> bool:
    return not node.up and node.compute_mode == DEFAULT
