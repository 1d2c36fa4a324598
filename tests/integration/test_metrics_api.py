"""The metrics API behind a real API server, fed by the real exporter over a stub of NVML."""

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from gpushare.errors import ApiError
from testbed import DevkitError, until
from testbed.control_plane.aggregation import until_available
from testbed.control_plane.api import Object
from testbed.daemons.metricsapi import ACCOUNT, MetricsApiProcess, start_metrics_api
from tests.support.fixtures.autoscaling import APP, USED_MIB, AutoscaledCluster, autoscaling_bed, deploy

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module")]

OLD, NEW = "/apis/custom.metrics.k8s.io/v1beta1", "/apis/custom.metrics.k8s.io/v1beta2"
SM = "DCGM_CUSTOM_PROCESS_SM_UTIL"
USED = "DCGM_CUSTOM_PROCESS_MEM_USED"
RATIO = "DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO"
PODS = f"{NEW}/namespaces/default/pods/*/{SM}"
HPA = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
TOTAL_MIB = 16130


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[AutoscaledCluster]:
    """One pod of S1 that uses 23 percent of its GPU and 15,343 MiB."""
    async with autoscaling_bed() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(scene: AutoscaledCluster) -> MetricsApiProcess:
    return await start_metrics_api(scene.bed, ["--keep-seconds=0.5"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pod(scene: AutoscaledCluster, api: MetricsApiProcess) -> str:
    assert api.process.running
    name = await deploy(scene)
    # One pod is enough here.
    await scene.bed.kubectl("delete", "hpa", "gpu-hpa")
    await scene.load(name, 23)
    await reported(scene, PODS, {name: "23"})
    return name


async def raw(scene: AutoscaledCluster, path: str) -> Any:
    return json.loads(await scene.bed.kubectl("get", "--raw", path))


def numbers(document: Object) -> dict[str, str]:
    return {each["describedObject"]["name"]: each["value"] for each in document["items"]}


async def reported(
    scene: AutoscaledCluster, path: str, expected: Mapping[str, str], timeout_s: float = 15
) -> None:
    """Wait until the API server returns exactly these values."""
    seen: dict[str, str] = {}

    async def there() -> bool:
        seen.clear()
        seen.update(numbers(await scene.bed.api.get(path)))
        return seen == expected

    try:
        await until(there, path, timeout_s, 0.1)
    except DevkitError:
        assert seen == expected
        raise


async def refused(scene: AutoscaledCluster, path: str, **params: str) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await scene.bed.api.get(path, **params)
    return caught.value


async def unavailable(scene: AutoscaledCluster) -> None:
    """Wait until the cached values have expired, and there are no others."""

    async def away() -> bool:
        try:
            await scene.bed.api.get(PODS)
        except ApiError as error:
            return error.status == HTTPStatus.SERVICE_UNAVAILABLE
        return False

    await until(away, "the metrics API to be unavailable", 15, 0.1)


async def direct(api: MetricsApiProcess, tls: ssl.SSLContext, user: str) -> tuple[int, str]:
    """Status and message of the metrics API itself, without the API server."""
    headers = {"X-Remote-User": user}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{api.url}{PODS}", headers=headers, ssl=tls) as answer,
    ):
        document = await answer.json()
        return answer.status, document.get("message", "")


def client(scene: AutoscaledCluster, stem: str | None = None) -> ssl.SSLContext:
    """A client that trusts the server, with one of the bed's certificates."""
    context = ssl.create_default_context(cafile=str(scene.bed.ca_file))
    if stem:
        pki = scene.bed.layout.pki
        context.load_cert_chain(pki / f"{stem}.crt", pki / f"{stem}.key")
    return context


async def test_discovery_lists_the_metrics_of_the_ack_documentation(
    scene: AutoscaledCluster, api: MetricsApiProcess
) -> None:
    assert api.process.running
    listed = {each["name"]: each for each in (await raw(scene, OLD))["resources"]}
    for kind, namespaced in (("nodes", False), ("pods", True), ("namespaces", False)):
        assert listed[f"{kind}/{SM}"] == {
            "name": f"{kind}/{SM}",
            "singularName": "",
            "namespaced": namespaced,
            "kind": "MetricValueList",
            "verbs": ["get"],
        }
    for name in ("nodes/DCGM_FI_DEV_GPU_UTIL", "nodes/DCGM_FI_DEV_FB_USED", f"pods/{USED}", f"pods/{RATIO}"):
        assert name in listed


async def test_values_of_pods_are_exact(scene: AutoscaledCluster, pod: str) -> None:
    label = f"labelSelector=app%3D{APP}"
    document = await raw(scene, f"{PODS}?{label}")
    (item,) = document["items"]
    assert document["kind"] == "MetricValueList"
    assert item["describedObject"] == {
        "kind": "Pod",
        "namespace": "default",
        "name": pod,
        "apiVersion": "/v1",
    }
    assert item["metric"]["name"] == SM
    assert item["value"] == "23"
    (old,) = (await raw(scene, f"{OLD}/namespaces/default/pods/*/{USED}?{label}"))["items"]
    assert (old["metricName"], old["value"]) == (USED, str(USED_MIB))
    ratio = await raw(scene, f"{NEW}/namespaces/default/pods/{pod}/{RATIO}")
    assert numbers(ratio) == {pod: f"{round(1000 * USED_MIB / TOTAL_MIB)}m"}


async def test_values_of_nodes_and_namespaces_are_exact(scene: AutoscaledCluster, pod: str) -> None:
    assert pod
    await reported(scene, f"{NEW}/nodes/*/DCGM_FI_DEV_FB_USED", {"gpu": str(USED_MIB)})
    await reported(scene, f"{NEW}/nodes/gpu/{SM}", {"gpu": "23"})
    await reported(scene, f"{NEW}/namespaces/default/metrics/{USED}", {"default": str(USED_MIB)})


async def test_selectors_choose_pods_and_series(scene: AutoscaledCluster, pod: str) -> None:
    async def chosen(**params: str) -> dict[str, str]:
        return numbers(await scene.bed.api.get(PODS, **params))

    assert await chosen(labelSelector=f"app in ({APP},x),!absent") == {pod: "23"}
    assert await chosen(labelSelector="app=other") == {}
    assert await chosen(metricLabelSelector="ContainerName=bert-container") == {pod: "23"}
    assert await chosen(metricLabelSelector="ContainerName!=bert-container") == {}


async def test_an_invalid_query_returns_the_reason(scene: AutoscaledCluster, pod: str) -> None:
    unknown = await refused(scene, f"{NEW}/namespaces/default/pods/*/DCGM_CUSTOM_PROCESS_SM")
    assert (unknown.status, unknown.reason) == (404, "NotFound")
    assert f"use one of {SM}" in str(unknown)
    malformed = await refused(scene, PODS, labelSelector="a b")
    assert (malformed.status, malformed.reason) == (400, "BadRequest")
    assert "labelSelector: selector 'a b'" in str(malformed)
    absent = await refused(scene, f"{NEW}/namespaces/default/pods/none/{SM}")
    assert absent.status == 404
    assert pod


async def test_only_the_front_proxy_is_trusted(scene: AutoscaledCluster, api: MetricsApiProcess) -> None:
    status, message = await direct(api, client(scene), "system:admin")
    assert status == 403
    assert "no client certificate" in message
    for stem in ("admin", "apiserver"):
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await direct(api, client(scene, stem), "system:admin")


async def test_the_client_of_the_front_proxy_can_read_what_its_roles_allow(
    scene: AutoscaledCluster, api: MetricsApiProcess
) -> None:
    front = client(scene, "front-proxy-client")
    assert await direct(api, front, HPA) == (200, "")
    status, message = await direct(api, front, "system:serviceaccount:default:default")
    assert status == 403
    assert "may not get" in message
    async with scene.bed.api_for("system:serviceaccount:default:default") as stranger:
        with pytest.raises(ApiError, match="403"):
            await stranger.get(PODS)
        assert (await stranger.get(NEW))["resources"]


async def test_without_an_exporter_the_api_is_unavailable(scene: AutoscaledCluster, pod: str) -> None:
    await scene.process.stop()
    await unavailable(scene)
    assert "no exporter responds" in str(await refused(scene, PODS))
    await scene.process.start()
    await reported(scene, PODS, {pod: "23"})


async def test_the_api_recovers_from_its_crash_and_from_that_of_the_api_server(
    scene: AutoscaledCluster, api: MetricsApiProcess, pod: str
) -> None:
    api.process.kill()
    await api.process.wait()
    await api.process.start()
    await until_available(scene.bed, "v1beta2.custom.metrics.k8s.io", 60)
    await reported(scene, PODS, {pod: "23"})
    await scene.bed.kill("kube-apiserver")
    await scene.bed.start("kube-apiserver")
    await reported(scene, PODS, {pod: "23"}, 60)


async def test_a_renewed_certificate_is_served(scene: AutoscaledCluster, api: MetricsApiProcess) -> None:
    async def serial() -> int:
        pem = ssl.get_server_certificate(("127.0.0.1", int(api.url.rpartition(":")[2])))
        return hash(pem)

    before = await serial()
    scene.bed.credentials.server("renewed", ["gpushare-metrics-api.kube-system.svc", "127.0.0.1"]).write(
        api.cert.parent, "tls"
    )

    async def renewed() -> bool:
        return await serial() != before

    await until(renewed, "the renewed certificate to be served", 30, 0.5)
    assert (await scene.bed.api.get(NEW))["resources"]


async def test_it_has_no_permission_that_it_does_not_need(
    scene: AutoscaledCluster, api: MetricsApiProcess
) -> None:
    assert api.process.running
    async with scene.bed.api_for(ACCOUNT) as account:
        assert await account.items("/api/v1/pods") is not None
        for path in ("/api/v1/secrets", "/api/v1/configmaps"):
            with pytest.raises(ApiError, match="403"):
                await account.items(path)
