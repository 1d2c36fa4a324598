"""The real prometheus-adapter with the rules of the ACK documentation, a real Prometheus and exporter."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from testbed import DevkitError, until
from testbed.control_plane.api import Object
from testbed.daemons.prometheus import start_prometheus
from testbed.daemons.prometheus_adapter import start_adapter
from tests.support.fixtures.autoscaling import autoscaling_bed, follows_the_load
from tests.support.fixtures.prometheus import BUSY_MIB, USED_MIB, ScrapedCluster, scraped_cluster
from tools.monitoring_files import FOLDER

pytestmark = [pytest.mark.needs("kubelet", "prometheus"), pytest.mark.asyncio(loop_scope="module")]

RULES = FOLDER / "adapter-rules.yaml"
API = "/apis/custom.metrics.k8s.io/v1beta1"
SM, USED = "DCGM_CUSTOM_PROCESS_SM_UTIL", "DCGM_CUSTOM_PROCESS_MEM_USED"
RATIO = "DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO"
OF_PODS = {
    f"{kind}/{metric}": kind == "pods"
    for metric in (SM, USED, RATIO)
    for kind in ("pods", "namespaces", "nodes")
    if (kind, metric) != ("nodes", RATIO)
}
LISTED = {**OF_PODS, "nodes/DCGM_FI_DEV_GPU_UTIL": False, "nodes/DCGM_FI_DEV_FB_USED": False}
"""Metrics that the ACK documentation lists, and whether they are namespaced."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[ScrapedCluster]:
    async with scraped_cluster() as found:
        await start_adapter(found.bed, found.prometheus, RULES)
        yield found


async def shows(scene: ScrapedCluster, path: str, expected: dict[str, float]) -> None:
    """Wait until the API returns these values, by name of the object."""
    seen: dict[str, float] = {}

    async def reported() -> bool:
        found = await scene.bed.api.items(f"{API}/{path}")
        seen.clear()
        seen.update({each["describedObject"]["name"]: number(each["value"]) for each in found})
        return seen == pytest.approx(expected, abs=0.001)

    try:
        await until(reported, path, 30, 0.2)
    except DevkitError:
        assert seen == expected
        raise


def number(quantity: str) -> float:
    """The formats of Kubernetes quantities that the adapter uses."""
    return int(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


async def test_the_adapter_lists_the_metrics_of_the_ack_documentation(scene: ScrapedCluster) -> None:
    seen: dict[str, Object] = {}

    async def listed() -> bool:
        document = json.loads(await scene.bed.kubectl("get", "--raw", API))
        seen.update({each["name"]: each for each in document["resources"]})
        return len(seen) >= len(LISTED)

    await until(listed, "the metrics to be listed", 30, 0.5)
    assert {name: each["namespaced"] for name, each in seen.items()} == LISTED
    for each in seen.values():
        assert (each["kind"], each["singularName"], each["verbs"]) == ("MetricValueList", "", ["get"])


@pytest.mark.parametrize(
    ("metric", "busy", "idle"), [(SM, 23, 0), (USED, USED_MIB, 0), (RATIO, USED_MIB / BUSY_MIB, 0)]
)
async def test_values_of_pods_are_exact(scene: ScrapedCluster, metric: str, busy: float, idle: float) -> None:
    await shows(scene, f"namespaces/default/pods/*/{metric}", {"busy": busy, "idle": idle})


async def test_values_of_nodes_are_exact(scene: ScrapedCluster) -> None:
    await shows(scene, "nodes/t4/DCGM_FI_DEV_GPU_UTIL", {"t4": 25})
    await shows(scene, "nodes/t4/DCGM_FI_DEV_FB_USED", {"t4": USED_MIB})


async def test_the_hpa_scales_with_the_load_as_the_document_shows() -> None:
    async with autoscaling_bed() as scene:
        targets = {"exporter": [scene.exporter.url.removeprefix("http://")]}
        await start_adapter(scene.bed, await start_prometheus(scene.bed, targets), RULES)
        await follows_the_load(scene)
