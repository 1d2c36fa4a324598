"""The Job that tells a static kube-scheduler of the extender, and the one that takes it back; our images.

Everything is scheduled by that scheduler, the extender and the Jobs too.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from gpushare.contract import ANN_IDX
from testbed import Bed, Card, SchedulerSpec, SimNode, Testbed, TestbedError, until
from testbed.deployed import CONTROL_PLANE
from testbed.deploying import by_kubectl
from testbed.images import Images, ensure, load
from testbed.images import look as look_for_podman
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet, needs
from tests.support import static_scheduler

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

try:
    needs.look()
    look_for_podman()
except TestbedError as reason:
    pytest.skip(str(reason), allow_module_level=True)

VERSION = "1.36"
CONFIG = f"{static_scheduler.FOLDER}/gpushare/scheduler-config.json"
JOB = "/apis/batch/v1/namespaces/kube-system/jobs/gpushare-installer"
SLOW_S = 120


@dataclass(frozen=True)
class ControlPlane:
    """One node that runs kube-scheduler, and a simulated one with a card."""

    bed: Bed
    node: KubeletNode
    images: Images

    async def deploy(self, state: str) -> None:
        """Extender and installer, by what ``components.render`` prints; ends when the Job has."""
        await by_kubectl(
            self.bed,
            {
                "kubernetesVersion": VERSION,
                "extender": {"image": self.images.references["extender"]},
                "devicePlugins": [],
                "installer": {
                    "image": self.images.references["cli"],
                    "controlPlanes": 1,
                    "state": state,
                },
            },
        )

        async def done() -> bool:
            return bool((await self.bed.api.get(JOB))["status"].get("succeeded"))

        await until(done, "the installer to be done", SLOW_S)

    async def until_told(self, *, told: bool) -> None:
        """Wait until the scheduler that runs has been told of the extender, or has not."""

        async def so() -> bool:
            return await static_scheduler.runs_with(self.node, CONFIG) is told

        await until(so, "the kubelet to start the scheduler again", SLOW_S)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    images = await ensure()
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        spec = KubeletSpec(
            "master", labels={CONTROL_PLANE: ""}, config=static_scheduler.STATIC_PODS, services=True
        )
        node = await add_kubelet(bed, spec)
        await load(node, images)
        await static_scheduler.install(node, VERSION, tmp_path_factory.mktemp("images"))
        await bed.add_nodes([SimNode("n", [Card()])])
        yield ControlPlane(bed, node, images)


async def test_the_installer_tells_the_scheduler_and_the_restoring_one_puts_every_byte_back(
    plane: ControlPlane,
) -> None:
    manifest = plane.node.path(static_scheduler.MANIFEST)
    await plane.deploy("present")
    await plane.until_told(told=True)
    assert ANN_IDX in (await static_scheduler.place(plane.bed, "shared", 4))["metadata"]["annotations"]
    await plane.bed.api.delete(JOB, propagationPolicy="Background")
    await plane.deploy("absent")
    await plane.until_told(told=False)
    assert manifest.read_text() == static_scheduler.original(VERSION)
    assert ANN_IDX not in (await static_scheduler.place(plane.bed, "plain", 4))["metadata"].get(
        "annotations", {}
    )
