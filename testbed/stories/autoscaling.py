"""The autoscaling of the ACK documentation on a deployed cluster: an HPA follows the GPU load of a service.

What belongs here: the cluster, and the steps from one replica to two and back. What does not: printing
(``testbed.demo``), and the manifest (``examples/bert.yaml``).
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from devkit.waiting import until
from gpushare.contract import METRICS_API_NAME, SYSTEM_NAMESPACE
from release import Images
from release.published import examples
from testbed.control_plane.aggregation import TO_PODS, service_host
from testbed.control_plane.api import Object
from testbed.control_plane.bed import Bed
from testbed.control_plane.nodes import SimNode
from testbed.control_plane.start import Testbed
from testbed.cuda.reporting import reporting
from testbed.daemons.whole_gpu_plugin import start_whole_gpu_plugin
from testbed.kubelets import BUSYBOX_IMAGE
from testbed.stories import V100
from testbed.stories.deployed import Deploy, DeployedNode, add_control_plane_node, add_node

TITLE = "Autoscaling: an inference service on whole GPUs, from 1 replica to 2 and back"
SYNC_S, STABLE_S = 1, 3
HPA_FLAGS = (
    f"--horizontal-pod-autoscaler-sync-period={SYNC_S}s",
    f"--horizontal-pod-autoscaler-downscale-stabilization={STABLE_S}s",
)
"""The HPA controller reconciles every second, and waits three seconds before it removes replicas."""
_WHOLE = {"nvidia.com/gpu.present": "true"}
"""The label of GPU Feature Discovery, which the exporter selects by default."""
_SECRET = "gpushare-metrics-api"  # noqa: S105 - a name
_APP = "bert-intent-detection"
_STEP_S = 90.0


@dataclass(frozen=True)
class AutoscaledCluster:
    """A cluster with one node of two whole GPUs, and the deployed objects."""

    bed: Bed
    node: DeployedNode
    objects: list[str]


@asynccontextmanager
async def autoscaled_cluster(images: Images, deploy: Deploy) -> AsyncIterator[AutoscaledCluster]:
    """Run the cluster: exporter and metrics API are deployed, and NVIDIA's plugin is a stand-in."""
    async with AsyncExitStack() as stack:
        bed = await stack.enter_async_context(
            Testbed(kwok=False, api_flags=TO_PODS, controller_flags=HPA_FLAGS)
        )
        await add_control_plane_node(bed, images)
        node = await add_node(bed, SimNode("gpu", [V100, V100], labels=_WHOLE), images)
        await stack.enter_async_context(reporting(node.cuda, node.stub))
        await start_whole_gpu_plugin(node)
        await _create_certificate(bed)
        objects = await deploy(bed, _configuration(bed, images))
        yield AutoscaledCluster(bed, node, objects)


async def steps(cluster: AutoscaledCluster, images: Images) -> AsyncIterator[str]:
    """Run the steps; yield the description of each when the HPA has done what it describes."""
    bed = cluster.bed
    await bed.apply(examples(images.references["samples"])["bert"])
    await until(partial(_has, bed, 1, idle=True), "one replica without load", _STEP_S)
    yield "One replica without load"
    ((pod,)) = await _pods(bed)
    await _send_requests(bed, pod["status"]["podIP"])
    await until(partial(_has, bed, 2, idle=False), "two replicas", _STEP_S)
    yield "A client sends requests to it, which use more than 20 % of its GPU"
    await bed.kubectl("delete", "pod", "load", "--now")
    await until(partial(_has, bed, 1, idle=True), "one replica without load again", _STEP_S)
    yield "The client has stopped"


async def _has(bed: Bed, replicas: int, *, idle: bool) -> bool:
    """Return whether the service has that many replicas, all ready, and the HPA reads no load if ``idle``."""
    status = (await bed.api.get(f"/apis/apps/v1/namespaces/default/deployments/{_APP}"))["status"]
    hpa = await bed.api.get("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/gpu-hpa")
    metrics = hpa.get("status", {}).get("currentMetrics") or ()
    # A metric that the HPA could not read has no value. Without load it is "0"; others may have a suffix.
    values = [each["pods"]["current"]["averageValue"] for each in metrics if "pods" in each]
    pods = await _pods(bed)
    return (
        len(pods) == status.get("readyReplicas", 0) == replicas
        and bool(values)
        and (values[0] == "0" or not idle)
    )


async def _pods(bed: Bed) -> list[Object]:
    return await bed.api.items("/api/v1/namespaces/default/pods", labelSelector=f"app={_APP}")


async def _send_requests(bed: Bed, address: str) -> None:
    """Start a client. A request takes 50 ms of GPU time, so that the load is about a third."""
    url = f"http://{address}:8080/predict?query=music"
    loop = f"while sleep 0.1; do wget -q -O - '{url}'; done"
    await bed.kubectl("run", "load", f"--image={BUSYBOX_IMAGE}", "--restart=Never", "--", "sh", "-c", loop)


async def _create_certificate(bed: Bed) -> None:
    pair = bed.credentials.server("metrics-api", [service_host(METRICS_API_NAME)])
    data = {"tls.crt": pair.cert.decode(), "tls.key": pair.key.decode()}
    made = {"metadata": {"name": _SECRET}, "type": "kubernetes.io/tls", "stringData": data}
    await bed.api.create(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets", made)


def _configuration(bed: Bed, images: Images) -> Mapping[str, object]:
    exporter = {"image": images.references["exporter"], "intervalSeconds": 1}
    api = {
        "image": images.references["metrics-api"],
        "tlsSecret": _SECRET,
        "caBundle": bed.ca_file.read_text(),
        "customMetrics": True,
    }
    return {
        "kubernetesVersion": "1.36",
        "extender": {
            "exposure": "node-port",
            "image": images.references["extender"],
            "certificatesImage": images.references["cli"],
        },
        "monitoring": {"exporter": exporter, "metricsApi": api},
    }
