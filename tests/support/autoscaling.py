"""The source document's own Deployment and HPA on a real cluster, our exporter, and a load by script.

What belongs here: the bed, the load, and what the HPA then does. What does not: who serves the metrics.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpushare.contract import EXPORTER_NAME
from testbed import Bed, Testbed, TestbedError, until
from testbed.control_plane.api import Object
from testbed.daemons.agent import CardNode, add_card_node
from testbed.daemons.exporter import Exporter, Page, grant_exporter, start_exporter
from testbed.daemons.whole_gpu_plugin import start_whole_cards
from testbed.kubelets import BUSYBOX_IMAGE, KubeletSpec
from testbed.nvml import Process, card
from testbed.system.process import Process as NodeProcess
from tests.support.gpunodes import PODS, replicas_run
from tests.support.recount import pid_of

APP = "bert-intent-detection"
MANIFEST = Path(__file__).parents[2] / "examples" / "bert.yaml"
IMAGE = "docker.io/ai-samples/bert-intent-detection:1.0.1"
HPA = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/gpu-hpa"
DEPLOYMENT = f"/apis/apps/v1/namespaces/default/deployments/{APP}"
QUICK = ["--interval-seconds=0.3", "--deadline-seconds=2", "--stale-seconds=6"]
SYNC_S, STABLE_S = 1, 3
FLAGS = (
    f"--horizontal-pod-autoscaler-sync-period={SYNC_S}s",
    f"--horizontal-pod-autoscaler-downscale-stabilization={STABLE_S}s",
)
"""Of a controller manager whose HPA looks every second and forgets a higher need after three."""
USED_MIB = 15343
UP = "New size: 2; reason: pods metric DCGM_CUSTOM_PROCESS_SM_UTIL above target"
DOWN = "New size: 1; reason: All metrics below target"
_GIVEN = "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED"


@dataclass(frozen=True)
class Scene:
    """A bed with one node of two whole cards, and what the exporter on it shows."""

    bed: Bed
    node: CardNode
    exporter: Page

    @property
    def process(self) -> NodeProcess:
        """The exporter's, where it does not run as a pod."""
        assert isinstance(self.exporter, Exporter)
        return self.exporter.process

    async def load(self, pod: str, percent: int) -> None:
        """Let a pod take that part of its card."""
        ((uuid,),) = await self.exporter.values(_GIVEN, "UUID", PodName=pod)
        index = [each.uuid for each in self.node.stub.description.cards].index(uuid)
        process = Process(pid_of(self.node, pod), used_mib=USED_MIB, sm=percent)
        self.node.stub.processes(index, [process])

    def rest(self) -> None:
        """Let all cards be idle."""
        for index in range(len(self.node.stub.description.cards)):
            self.node.stub.processes(index, [])


@asynccontextmanager
async def autoscaling_bed() -> AsyncIterator[Scene]:
    """A node whose exporter is a process, on a control plane with ``FLAGS``."""
    async with Testbed(kwok=False, controller_flags=FLAGS) as bed:
        await grant_exporter(bed)
        node = await add_card_node(bed, KubeletSpec("gpu"), 2 * [card("V100")])
        await node.kubelet.stand_in(IMAGE)
        await start_whole_cards(node)
        exporter = await start_exporter(node, QUICK)
        await _exporter_pod(node)
        yield Scene(bed, node, exporter)


async def _exporter_pod(node: CardNode) -> None:
    """A pod in the node's own network, where the exporter listens: so it is found as one of its DaemonSet."""
    await node.bed.until_service_account("kube-system")
    spec = {
        "hostNetwork": True,
        "nodeName": node.name,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": BUSYBOX_IMAGE, "command": ["sleep", "100000"]}],
    }
    metadata = {"name": EXPORTER_NAME, "labels": {"app": "gpushare", "component": EXPORTER_NAME}}
    path = "/api/v1/namespaces/kube-system/pods"
    await node.bed.api.create(path, {"metadata": metadata, "spec": spec})

    async def there() -> bool:
        status = (await node.bed.api.get(f"{path}/{EXPORTER_NAME}"))["status"]
        return bool(status.get("phase") == "Running" and status.get("podIP") == node.kubelet.address)

    await until(there, "the exporter's pod to have the node's address")


async def deploy(scene: Scene) -> str:
    """Apply the document's manifests as they are; the name of the one pod once it runs and is seen."""
    await scene.bed.apply(MANIFEST.read_text())
    (pod,) = await replicas_run(scene.bed, APP, 1)
    await shows(scene, "0/20")
    return str(pod["metadata"]["name"])


async def follows_the_load(scene: Scene) -> None:
    """1 → 2 at 23/20 and back to 1 without load, as the document shows it."""
    name = await deploy(scene)
    await scene.load(name, 23)
    await shows(scene, "23/20")
    await replicas_run(scene.bed, APP, 2)
    await rescaled(scene, UP)
    scene.rest()
    await shows(scene, "0/20")
    await replicas_run(scene.bed, APP, 1)
    await rescaled(scene, UP, DOWN)


async def shows(scene: Scene, targets: str) -> None:
    """Wait until ``kubectl get hpa`` has shown these TARGETS."""

    async def told() -> bool:
        lines = (await scene.bed.kubectl("get", "hpa", "gpu-hpa", "--no-headers")).split()
        return targets in lines

    await until(told, f"the HPA to show {targets}", 30, 0.2)


async def rescaled(scene: Scene, *decisions: str) -> None:
    """Wait until the HPA's events tell exactly these decisions, in this order."""

    async def told() -> bool:
        found = await scene.bed.api.items(
            "/api/v1/namespaces/default/events",
            fieldSelector="involvedObject.name=gpu-hpa,reason=SuccessfulRescale",
        )
        found.sort(key=lambda each: int(each["metadata"]["resourceVersion"]))
        return [each["message"] for each in found] == list(decisions)

    await until(told, f"the HPA's events to be {decisions}", 15, 0.2)


async def replicas(scene: Scene) -> int:
    """What the Deployment is told to have."""
    return int((await scene.bed.api.get(DEPLOYMENT))["spec"]["replicas"])


async def condition(scene: Scene, kind: str) -> Object:
    """The HPA's condition of that type; empty where there is none."""
    conditions = (await scene.bed.api.get(HPA))["status"].get("conditions", ())
    return next((each for each in conditions if each["type"] == kind), {})


async def remove(scene: Scene) -> None:
    """Delete what the manifests made, and wait until its pods are gone."""
    await scene.bed.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=MANIFEST.read_text())
    scene.rest()

    async def gone() -> bool:
        pods = await scene.bed.api.items(PODS, labelSelector=f"app={APP}")
        for each in pods:
            # The image that stands in does not end by itself; its process may be gone meanwhile.
            with suppress(AssertionError, OSError, TestbedError):
                pid = pid_of(scene.node, each["metadata"]["name"])
                await scene.node.kubelet.run_text(["kill", "-9", str(pid)])
        return not pods

    await until(gone, f"the pods of {APP} to be gone", 60, 0.5)
