"""Requests over real TLS: access, answers, and the messages of errors."""

import asyncio
import re
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from gpushare.errors import ApiError, SourceError
from gpushare.metricsapi.queries import MetricValue, ObjectKind
from gpushare.model.selector import parse_selector
from gpushare.runtime import rate
from testbed.control_plane.pki import Authority
from tests.unit.metricsapi.fixtures import API, FRONT, MetricsApi, serving

SM = "DCGM_CUSTOM_PROCESS_SM_UTIL"
PODS = f"{API}/namespaces/a/pods/*/{SM}"
USAGE = "/apis/usage.gpushare.io/v1"
VALUES = {"p": MetricValue(23, 0), "q": MetricValue(0, 0), "gone": MetricValue(1, 0)}


def names(document: Any) -> list[str]:
    return [each["describedObject"]["name"] for each in document["items"]]


async def refused(api: MetricsApi, path: str, **how: Any) -> tuple[int, str]:
    """The status and the message, which are those of a Status object."""
    status, document = await api.ask(path, **how)
    assert (document["kind"], document["code"]) == ("Status", status)
    return status, document["message"]


async def test_the_pods_of_a_namespace(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.answers.values = VALUES
        status, document = await api.ask(PODS)
        assert status == 200
        assert {each["describedObject"]["name"]: each["value"] for each in document["items"]} == {
            "p": "23",
            "q": "0",
        }
        assert api.answers.queries[0].namespace == "a"


async def test_labels_select_pods_and_series(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.answers.values = VALUES
        _, document = await api.ask(f"{PODS}?labelSelector=app%3Dx&metricLabelSelector=gpu%20in%20(0,1)")
        assert names(document) == ["p"]
        assert api.answers.queries[0].selector == parse_selector("gpu in (0,1)")


async def test_one_pod_one_node_and_one_namespace(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.answers.values = {"p": MetricValue(1, 0), "n": MetricValue(2, 0), "a": MetricValue(3, 0)}
        for path, name in (("namespaces/a/pods/p", "p"), ("nodes/n", "n"), ("namespaces/a/metrics", "a")):
            _, document = await api.ask(f"{API}/{path}/{SM}")
            assert names(document) == [name]
        assert [each.kind for each in api.answers.queries] == [
            ObjectKind.PODS,
            ObjectKind.NODES,
            ObjectKind.NAMESPACES,
        ]
        assert [each.name for each in api.answers.queries] == ["p", "n", "a"]


@pytest.mark.parametrize("path", ["/apis", "/apis/custom.metrics.k8s.io", API, API.replace("2", "1") + "/"])
async def test_discovery(tmp_path: Path, path: str) -> None:
    async with serving(tmp_path) as api:
        status, _ = await api.ask(path)
        assert status == 200
        assert api.answers.reviews[0]["nonResourceAttributes"] == {"path": path, "verb": "get"}


async def test_each_header_line_is_one_group(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        groups = [("X-Remote-User", "u"), ("X-Remote-Group", "a,b"), ("X-Remote-Group", "c")]
        await api.ask(API, headers=groups)  # type: ignore[arg-type]
        assert api.answers.reviews[0]["groups"] == ("a,b", "c", "system:authenticated")


# --- access -------------------------------------------------------------------------------------


async def test_a_client_without_a_certificate_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        status, message = await refused(api, PODS, tls=api.client())
        assert (status, api.answers.reviews) == (403, [])
        assert "no client certificate" in message


async def test_a_flood_of_refused_requests_does_not_flood_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate, "_REFUSALS", 3.0)
    monkeypatch.setattr(rate, "_REFUSALS_PER_S", 0.001)
    async with serving(tmp_path) as api:
        tls = api.client()
        with capture_logs() as logs:
            for _ in range(10):
                await refused(api, PODS, tls=tls)
    assert [each["event"] for each in logs] == ["caller_refused"] * 3


async def test_a_certificate_with_another_name_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        tls = api.client(api.front_ca.client("admin"))
        status, message = await refused(api, PODS, tls=tls)
        assert (status, api.answers.reviews) == (403, [])
        assert "'admin'" in message


async def test_a_certificate_of_another_ca_fails_in_tls(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        for pair in (
            Authority.create("front").client(FRONT),
            api.server_ca.client(FRONT),
            api.front_ca.server(FRONT, ["127.0.0.1"]),
        ):
            with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
                await api.ask(PODS, tls=api.client(pair))
        assert api.answers.reviews == []


async def test_all_requests_are_refused_until_the_front_proxy_is_known(tmp_path: Path) -> None:
    async with serving(tmp_path, trusted=False) as api:
        status, _ = await refused(api, PODS, tls=api.client())
        assert status == 503
        assert "has not been read yet" in str(api.auth.problem)
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await api.ask(PODS)


async def test_a_caller_without_permission_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.answers.allowed = False
        assert await refused(api, PODS) == (403, f"user 'u' may not get {PODS}: no role allows it")


async def test_the_usage_api_is_reviewed_for_the_namespace_and_says_who_can_allow_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        status, document = await api.ask(f"{USAGE}/namespaces/a/gpupods")
        assert (status, document["items"]) == (200, [])
        attributes = api.answers.reviews[0]["resourceAttributes"]
        assert (attributes["group"], attributes["verb"], attributes["namespace"], attributes["resource"]) == (
            *("usage.gpushare.io", "list"),
            *("a", "gpupods"),
        )
        api.answers.allowed = False
        status, message = await refused(api, f"{USAGE}/namespaces/b/gpufits")
        assert status == 403
        assert "whoever administers namespace b can bind the ClusterRole view to the user" in message


async def test_the_usage_api_is_discovered_and_read_in_one_namespace(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        _, document = await api.ask(USAGE)
        assert [each["name"] for each in document["resources"]][:1] == ["gpupods"]
        status, message = await refused(api, f"{USAGE}/gpupods")
        assert status == 404
        assert "read in one namespace (-n)" in message
        assert (await refused(api, f"{USAGE}/namespaces/a/gpupods", method="POST"))[0] == 405


async def test_requests_are_refused_if_the_access_review_fails(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.answers.allowed = ApiError("no answer in time")
        status, message = await refused(api, PODS)
        assert status == 503
        assert "no answer in time" in message


async def test_health_needs_no_permission(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        for path in ("/healthz", "/livez", "/readyz"):
            assert await api.ask(path, tls=api.client()) == (200, "ok")


# --- bad requests -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        (f"{API}/namespaces/a/pods/*/DCGM_CUSTOM_PROCESS_SM", 404, f"use one of .*{SM}"),
        (f"{API}/namespaces/a/pods/*/DCGM_FI_DEV_GPU_UTIL", 404, "no metric 'DCGM_FI_DEV_GPU_UTIL' of pods"),
        (f"{API}/namespaces/a/services/s/{SM}", 404, "does not exist"),
        ("/openapi/v2", 404, "/openapi/v2 does not exist"),
        (f"{API}/namespaces/a/pods/none/{SM}", 404, "pods 'none' not found"),
        (f"{API}/namespaces/a/pods/p/{SM}", 404, f"pods 'p' has no {SM} now"),
        (f"{API}/namespaces/none/metrics/{SM}", 404, "namespaces 'none' not found"),
        (f"{API}/nodes/none/{SM}", 404, "nodes 'none' not found"),
        (f"{PODS}?labelSelector=a%20b", 400, "labelSelector: selector 'a b' is not like"),
        (f"{PODS}?metricLabelSelector=%3D", 400, "metricLabelSelector: selector '=' is not like"),
        (f"{PODS}?metricLabelSelector=a.b%3Dc", 400, "metricLabelSelector: 'a.b' cannot be the label"),
    ],
)
async def test_an_invalid_query_returns_the_reason(
    tmp_path: Path, path: str, code: int, message: str
) -> None:
    async with serving(tmp_path) as api:
        status, text = await refused(api, path)
        assert status == code
        assert re.search(message, text), text


async def test_a_namespace_without_such_pods_has_an_empty_list(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.answers.values = VALUES
        status, document = await api.ask(f"{API}/namespaces/none/pods/*/{SM}")
        assert (status, document["items"]) == (200, [])


async def test_metrics_are_read_only(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        status, _ = await refused(api, PODS, method="DELETE")
        assert status == 405
        assert api.answers.reviews[0]["resourceAttributes"]["verb"] == "delete"


async def test_a_source_that_is_down_is_unavailable(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.answers.values = SourceError("no exporter responds")
        assert await refused(api, PODS) == (503, f"{SM} cannot be read: no exporter responds")


async def test_requests_are_counted_by_kind_and_code(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.ask(PODS)
        await api.ask("/openapi/v2")
        count = api.metrics.registry.get_sample_value
        assert count("gpushare_metrics_api_requests_total", {"kind": "pods", "code": "200"}) == 1
        assert count("gpushare_metrics_api_requests_total", {"kind": "other", "code": "404"}) == 1


# --- a front proxy that changes ------------------------------------------------------------------


async def until_served(api: MetricsApi, tls: ssl.SSLContext) -> None:
    async with asyncio.timeout(5):
        while True:
            try:
                await api.ask("/healthz", tls=tls)
            except (aiohttp.ClientError, ssl.SSLError):
                await asyncio.sleep(0.02)
            else:
                return


async def test_a_new_ca_of_the_front_proxy_replaces_the_old_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        successor = Authority.create("successor")
        api.trust(successor)
        await until_served(api, api.client(successor.client(FRONT)))
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await api.ask(PODS)


async def test_a_config_map_that_becomes_invalid_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.auth.update({})
        assert api.auth.problem is None
        assert (await api.ask(API))[0] == 200
