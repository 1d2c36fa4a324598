"""The real HPA controller scales the Deployment of the ACK documentation by our metrics API."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from testbed import until
from testbed.daemons.metricsapi import MetricsApiProcess, start_metrics_api
from testbed.stories.autoscaling import STABLE_S, SYNC_S
from tests.support.fixtures import autoscaling
from tests.support.fixtures.autoscaling import (
    APP,
    AutoscaledCluster,
    autoscaling_bed,
    condition,
    deploy,
    follows_the_load,
    replicas,
)
from tests.support.fixtures.gpu_nodes import replicas_run
from tests.support.metrics import total

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[AutoscaledCluster]:
    async with autoscaling_bed() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(scene: AutoscaledCluster) -> MetricsApiProcess:
    return await start_metrics_api(scene.bed, ["--keep-seconds=0.5"])


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_left(scene: AutoscaledCluster, api: MetricsApiProcess) -> AsyncIterator[None]:
    assert api.process.running
    yield
    await autoscaling.remove(scene)


async def test_the_hpa_scales_with_the_load_as_the_document_shows(scene: AutoscaledCluster) -> None:
    await follows_the_load(scene)


async def queries(api: MetricsApiProcess, code: str) -> float:
    """The number of queries for pods with that result."""
    return await total(api.ops_url, "gpushare_metrics_api_requests_total", kind="pods", code=code)


async def test_the_hpa_keeps_its_size_while_no_exporter_answers(
    scene: AutoscaledCluster, api: MetricsApiProcess
) -> None:
    name = await deploy(scene)
    await scene.load(name, 23)
    await replicas_run(scene.bed, APP, 2)
    await scene.process.stop()

    async def blind() -> bool:
        found = await condition(scene, "ScalingActive")
        return bool(found.get("status") == "False" and "no exporter responds" in found["message"])

    await until(blind, "the HPA to say that it sees nothing", 30, 0.2)
    scene.idle()
    blind_looks = await queries(api, "503")

    async def looked_often() -> bool:
        return await queries(api, "503") >= blind_looks + 2 * STABLE_S / SYNC_S

    await until(looked_often, "the HPA to look again", 30, 0.2)
    assert await replicas(scene) == 2
    await scene.process.start()
    await replicas_run(scene.bed, APP, 1)
