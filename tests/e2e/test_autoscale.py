"""One ``pulumi up``, and the HPA of the ACK documentation follows the load of its pods' GPUs.

Exporter and metrics API run from our images, with the deployed permissions. What is not real: the GPUs (a
stub of NVML), the plugin that allocates whole GPUs (``testbed.daemons.whole_gpu_plugin``), the workload's
image.
"""

import pytest
import pytest_asyncio

from gpushare.contract import EXPORTER_NAME, EXPORTER_PORT, METRICS_API_NAME
from release import Images, ensure
from testbed import Bed, SimNode, Testbed
from testbed.control_plane.aggregation import service_host
from testbed.daemons.exporter import Page
from testbed.daemons.whole_gpu_plugin import start_whole_gpu_plugin
from testbed.stories import V100
from testbed.stories.deployed import add_control_plane_node, add_node, by_pulumi
from tests.fixtures.autoscaling import FLAGS, IMAGE, AutoscaledCluster, follows_the_load

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.needs("kubelet", "images"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

# A node with whole GPUs and the label of GPU Feature Discovery, which the exporter selects by default.
WHOLE = {"nvidia.com/gpu.present": "true"}
SECRET = "gpushare-metrics-api"  # noqa: S105 - a name
SYSTEM = "/api/v1/namespaces/kube-system"
# There is no kube-proxy beside the API server, so it connects to the pods.
TO_PODS = ("--enable-aggregator-routing=true",)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def images() -> Images:
    return await ensure()


async def secret(bed: Bed) -> None:
    pair = bed.credentials.server("metrics-api", [service_host(METRICS_API_NAME)])
    data = {"tls.crt": pair.cert.decode(), "tls.key": pair.key.decode()}
    made = {"metadata": {"name": SECRET}, "type": "kubernetes.io/tls", "stringData": data}
    await bed.api.create(f"{SYSTEM}/secrets", made)


def configuration(bed: Bed, images: Images) -> dict[str, object]:
    exporter = {"image": images.references["exporter"], "intervalSeconds": 1}
    api = {
        "image": images.references["metrics-api"],
        "tlsSecret": SECRET,
        "caBundle": bed.ca_file.read_text(),
    }
    return {
        "kubernetesVersion": "1.36",
        "extender": {"image": images.references["extender"], "tls": "none"},
        "monitoring": {"exporter": exporter, "metricsApi": api},
    }


async def test_after_one_up_the_documented_autoscaling_works(images: Images) -> None:
    async with Testbed(kwok=False, api_flags=TO_PODS, controller_flags=FLAGS) as bed:
        await add_control_plane_node(bed, images)
        node = await add_node(bed, SimNode("gpu", [V100, V100], labels=WHOLE), images, [IMAGE])
        await start_whole_gpu_plugin(node)
        await secret(bed)
        await by_pulumi(bed, configuration(bed, images))
        (pod,) = await bed.api.items(f"{SYSTEM}/pods", labelSelector=f"component={EXPORTER_NAME}")
        page = Page(f"http://{pod['status']['podIP']}:{EXPORTER_PORT}")
        await follows_the_load(AutoscaledCluster(bed, node, page))
