"""The YAML of the Aliyun pair runs our images on real kubelets, as the tutorial has it; only images change.

What is not real: the GPUs (a stub of NVML, which NVIDIA's own runtime adds to containers), the registry
(``tests.support.fakes.registry``) and the workload's image (a busybox with its name).
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from prometheus_client.samples import Sample

from gpushare import contract
from gpushare.model.hardware import RecoveryAction
from release import REGISTRY, Images, ensure
from testbed import Bed, SchedulerSpec, Testbed, until
from testbed.control_plane.api import Object
from testbed.daemons.agent import OPS_PORT, CardNode
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet, files
from testbed.nvml import NvmlStub, card, cdi
from testbed.stories.deployed import scheduler_for
from testbed.stories.play import pod_events
from tests.support.builders.examples import SAMPLES, without_commands
from tests.support.builders.stacks import ROOT
from tests.support.fakes import registry
from tests.support.fixtures.pages import follow
from tests.support.metrics import samples

pytestmark = [
    pytest.mark.needs("kubelet", "images"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

EXAMPLES = ROOT / "examples"
FILES = {"extender": "example.com/extender:v0.1.0", "device-plugin": "example.com/device-plugin:v0.1.0"}
"""Each file of the Aliyun pair, and the image that it names."""
WORKLOAD_IMAGE = SAMPLES
EXTENDER_OPS_PORT = 12346
PAGE = "docs/tutorials/original.md"
PODS = "/api/v1/namespaces/kube-system/pods"


@dataclass(frozen=True)
class Daemon:
    """A daemon: the label ``component`` of its pod, its short name in metrics, and their port."""

    bed: Bed
    component: str
    metrics: str
    url: str

    async def pod(self) -> Object:
        """The only pod of the daemon."""
        (found,) = await self.bed.api.items(PODS, labelSelector=f"component={self.component}")
        return found

    async def reported(self) -> Counter[str]:
        """Missing features and failures in its log, with their counts.

        Without a Lease the extender refuses binds at first, and the page does not wait.
        """
        name = (await self.pod())["metadata"]["name"]
        log = await self.bed.kubectl("--namespace=kube-system", "logs", name)
        lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        told = [each for each in lines if each["level"] in ("warning", "error")]
        return Counter(_missing(each) for each in told if each["event"] != "request_refused")

    async def reduced(self) -> set[str]:
        """Missing features in its metrics."""
        samples = await self.samples("degraded_mode")
        return {each.labels["right"] for each in samples if each.value}

    async def samples(self, name: str) -> list[Sample]:
        """All samples of one of its metrics."""
        return await samples(self.url, f"gpushare_{self.metrics}_{name}")


def _missing(line: Object) -> str:
    return str(line["right"] if line["event"] == "degraded_mode" else (line["event"], line.get("reason")))


@dataclass(frozen=True)
class Installed:
    """A cluster on which the two files have been applied."""

    node: CardNode
    extender: Daemon
    agent: Daemon


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installed]:
    images = await ensure()
    folder = write_examples(tmp_path_factory.mktemp("reader"), images)
    async with Testbed(kwok=False, scheduler=SchedulerSpec(version=None)) as bed:
        master, node = await asyncio.gather(add_master(bed, images), add_card_node(bed, images))
        await bed.restart_scheduler(scheduler_for(master))
        with chdir(folder):
            await follow(bed, PAGE)
        found = Installed(
            node,
            Daemon(bed, contract.EXTENDER_NAME, "extender", f"http://{master.address}:{EXTENDER_OPS_PORT}"),
            Daemon(bed, contract.AGENT_NAME, "device_plugin", f"http://{node.kubelet.address}:{OPS_PORT}"),
        )
        yield found


def write_examples(folder: Path, images: Images) -> Path:
    """The manifests as users have them: their images, and a sample that runs the command of its image."""
    original = folder / "examples/original"
    original.mkdir(parents=True)
    for name, named in FILES.items():
        text = (EXAMPLES / "original" / f"{name}.yaml").read_text()
        (original / f"{name}.yaml").write_text(text.replace(named, images.references[name]))
    (folder / "examples/binpack.yaml").write_text(without_commands("binpack"))
    return folder


async def add_master(bed: Bed, images: Images) -> KubeletNode:
    labels = {"node-role.kubernetes.io/master": ""}
    return await pulling(bed, KubeletSpec("master", labels=labels, files=mirror(), services=True), images)


async def add_card_node(bed: Bed, images: Images) -> CardNode:
    """Four P40 of 22 units; the runtime accepts NVIDIA_VISIBLE_DEVICES of images, as with Docker."""
    stub = NvmlStub(bed.folder / "nvml", era=580, cards=4 * [card("P40")])
    believing = files.nvidia().replace("unprivileged = false", "unprivileged = true")
    spec = KubeletSpec(
        "10.0.20.250",
        runtime="nvidia",
        files={**mirror(), cdi.FILE: cdi.specification(stub), files.NVIDIA_CONFIG: believing},
        services=True,
    )
    node = await pulling(bed, spec, images)
    await node.stand_in(WORKLOAD_IMAGE)
    return CardNode(bed, node, stub)


async def pulling(bed: Bed, spec: KubeletSpec, images: Images) -> KubeletNode:
    """A node that pulls the images for ``imagePullPolicy: Always``."""
    node = await add_kubelet(bed, spec)
    argv = [sys.executable, registry.__file__, str(images.folder)]
    await node.spawn("registry", argv, ready=f"http://{node.address}:{registry.PORT}/v2/")
    return node


def mirror() -> dict[str, str]:
    """The file by which containerd pulls from the registry on the node (hosts.md of containerd)."""
    host = REGISTRY.partition("/")[0]
    return {f"{files.REGISTRIES}/{host}/hosts.toml": f'server = "http://127.0.0.1:{registry.PORT}"\n'}


async def test_both_run_from_our_images_and_none_was_restarted(installed: Installed) -> None:
    for daemon in (installed.extender, installed.agent):
        (status,) = (await daemon.pod())["status"]["containerStatuses"]
        assert "running" in status["state"]
        assert status["restartCount"] == 0
        assert status["imageID"].startswith(REGISTRY)


async def test_the_three_pods_of_the_sample_see_the_first_gpu_only(installed: Installed) -> None:
    node = installed.node
    pods = await node.bed.api.items("/api/v1/namespaces/default/pods")
    assert len(pods) == 3
    for pod in pods:
        notes = pod["metadata"]["annotations"]
        assert (notes[contract.ANN_IDX], notes[contract.ANN_DEV]) == ("0", "22")
        spec = await node.kubelet.oci_spec(pod["metadata"]["name"], "binpack-1")
        devices = [each["path"] for each in spec["linux"]["devices"]]
        assert [each for each in devices if each.startswith("/dev/nvidia")] == [cdi.device_node(0)]
    assert contract.EVENT_PLACED in str(await pod_events(node.bed))


async def test_each_missing_feature_is_one_line_and_one_metric(installed: Installed) -> None:
    missing = {"leases", "poddisruptionbudgets", "secrets", "tls"}
    assert await installed.extender.reported() == Counter(missing)
    assert await installed.extender.reduced() == missing
    missing = {"pod-resources", "cgroups", "mps", "kubeconfig"}
    assert await installed.agent.reported() == Counter(missing)
    assert await installed.agent.reduced() == missing


async def test_a_gpu_failure_reports_the_missing_permission_for_configmaps(installed: Installed) -> None:
    node = installed.node
    before = await installed.agent.reduced()
    node.stub.require(3, RecoveryAction.GPU_RESET)

    async def closed() -> bool:
        notes = (await node.bed.api.get(f"/api/v1/nodes/{node.name}"))["metadata"]["annotations"]
        return [each["healthy"] for each in json.loads(notes[contract.ANN_CARDS])] == [True] * 3 + [False]

    await until(closed, "GPU 3 to be unhealthy in the annotation")
    assert (await installed.agent.reported())["configmaps"] == 1
    assert await installed.agent.reduced() == before | {"configmaps"}
    assert await installed.extender.reduced() == {"leases", "poddisruptionbudgets", "secrets", "tls"}
