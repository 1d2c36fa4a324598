"""What the board serves of earlier days, from a real Prometheus, with quotas of the API server."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from itertools import groupby
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from devkit.ports import LOOPBACK, free_ports
from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.client import KubeClient
from gpushare.board.past import ON_ONE_MACHINE, Past, PastSource
from gpushare.board.routes import HISTORY, TENANTS, TIMES
from gpushare.monitoring import rules
from gpushare.overview.past import QUOTAS
from gpushare.runtime.http import Request, Response
from tests.support.builders.api_objects import Json
from tests.support.fixtures.scraped_series import metrics_site, scraped, serving

pytestmark = [pytest.mark.needs("prometheus", "promtool"), pytest.mark.asyncio(loop_scope="module")]

GIB = 2**30
STEP_S = 300
HOURS = 20
SERIES = {
    f"{rules.CLUSTER_MEMORY}": 160 * GIB,
    f"{rules.CLUSTER_ALLOCATED}": 40 * GIB,
    f"{rules.CLUSTER_USED}": 10 * GIB,
    f"{rules.CLUSTER_COMPUTE}": 0.25,
    f'{rules.NAMESPACE_GPUS}{{namespace="ml"}}': 0.5,
    f'{rules.NAMESPACE_GPUS}{{namespace="web"}}': 2,
    f'{rules.NAMESPACE_COMPUTE}{{namespace="ml"}}': 0.25,
    f'{rules.NAMESPACE_ALLOCATED}{{namespace="ml"}}': 8 * GIB,
    f'{rules.NAMESPACE_ALLOCATED}{{namespace="web"}}': 32 * GIB,
    f'{rules.NAMESPACE_USED}{{namespace="ml"}}': 2 * GIB,
}
"""Recorded for 20 hours, until an hour ago."""


def openmetrics() -> Iterator[str]:
    """Series of a family are together, and its type is named once."""
    end = int(time.time()) // STEP_S * STEP_S - 3600
    for name, family in groupby(SERIES, lambda series: series.partition("{")[0]):
        yield f"# TYPE {name} gauge\n"
        for series in family:
            yield from (f"{series} {SERIES[series]} {at}\n" for at in range(end - HOURS * 3600, end, STEP_S))


def quota(namespace: str, hard: str, used: str, resource: str = "requests.aliyun.com/gpu-mem") -> Json:
    amounts = {"hard": {resource: hard}, "used": {resource: used}}
    return {"metadata": {"name": "gpus", "namespace": namespace}, "spec": {}, "status": amounts}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prometheus() -> AsyncIterator[str]:
    async with (
        serving(metrics_site(lambda: "")) as site,
        scraped(site, "up", 60, every_s=10, history="".join(openmetrics())) as url,
    ):
        yield url


@dataclass
class Quotas:
    """A FAKE of the API server: the ResourceQuotas of all namespaces, and a client of it."""

    client: KubeClient
    allowed: bool = True


@pytest_asyncio.fixture(loop_scope="module")
async def quotas() -> AsyncIterator[Quotas]:
    items = [
        quota("ml", "12", "8"),
        quota("ml", "20", "8"),
        quota("new", "4", "0"),
        quota("x", "1", "0", "cpu"),
    ]

    async def answer(_: web.Request) -> web.Response:
        if not found.allowed:
            message = 'User "board" cannot list resource "resourcequotas"'
            return web.json_response({"message": message, "reason": "Forbidden", "code": 403}, status=403)
        return web.json_response({"metadata": {}, "items": items})

    app = web.Application()
    app.router.add_get(QUOTAS, answer)
    async with serving(app) as url, KubeClient(ApiAccess(host=url)) as client:
        found = Quotas(client)
        yield found


async def asked(source: PastSource, quotas: Quotas, path: str, query: str = "") -> Response:
    request = Request("GET", path, {}, None, keep_alive=True, query=query)
    return await Past(source, quotas.client).answer(request)


async def content(source: PastSource, quotas: Quotas, path: str, query: str = "") -> Any:
    response = await asked(source, quotas, path, query)
    assert response.status == HTTPStatus.OK, response.body
    return json.loads(response.body)


async def test_the_history_has_a_value_for_each_step_and_null_where_nothing_is_known(
    prometheus: str, quotas: Quotas
) -> None:
    found = await content(PastSource(prometheus), quotas, HISTORY, "range=24h")
    assert (found["kind"], found["range"], found["stepSeconds"]) == ("GpuHistory", "24h", 300)
    lines = [found[name] for name in ("memoryBytes", "allocatedBytes", "usedBytes", "utilizationRatio")]
    assert {len(line) for line in lines} == {24 * 12}
    middle = [line[24 * 6] for line in lines]
    assert middle == [160 * GIB, 40 * GIB, 10 * GIB, 0.25]
    assert {line[-1] for line in lines} == {None}
    known = sum(value is not None for value in found["usedBytes"])
    assert HOURS * 12 - 1 <= known <= HOURS * 12 + 1


async def test_without_a_range_it_is_the_last_day(prometheus: str, quotas: Quotas) -> None:
    assert (await content(PastSource(prometheus), quotas, HISTORY))["range"] == "24h"


async def test_tenants_have_hours_and_the_lowest_quota(prometheus: str, quotas: Quotas) -> None:
    found = await content(PastSource(prometheus), quotas, TENANTS)
    assert (found["kind"], found["range"], found["notes"]) == ("GpuTenants", "30d", [])
    assert found["quotasKnown"]
    web_, ml, new = found["items"]
    assert [each["namespace"] for each in found["items"]] == ["web", "ml", "new"]
    # A series counts for at most five minutes after its last sample.
    assert ml["allocatedGpuHours"] == pytest.approx(0.5 * HOURS, abs=0.1)
    assert ml["usedGpuHours"] == pytest.approx(0.25 * HOURS, abs=0.1)
    assert ml["allocatedGibHours"] == pytest.approx(8 * HOURS, abs=1)
    assert ml["usedGibHours"] == pytest.approx(2 * HOURS, abs=1)
    assert ml["idleRatio"] == 0.75
    assert ml["quota"] == {"hardUnits": 12, "usedUnits": 8}
    assert (web_["idleRatio"], web_["quota"]) == (1, None)
    assert (new["allocatedGpuHours"], new["idleRatio"]) == (0, None)
    assert found["total"]["allocatedGpuHours"] == round(
        sum(each["allocatedGpuHours"] for each in found["items"]), 3
    )


async def test_without_the_right_to_quotas_there_is_a_note(prometheus: str, quotas: Quotas) -> None:
    quotas.allowed = False
    found = await content(PastSource(prometheus), quotas, TENANTS, "range=7d")
    (note,) = found["notes"]
    assert 'cannot list resource "resourcequotas"' in note
    assert not found["quotasKnown"]
    assert [each["namespace"] for each in found["items"]] == ["web", "ml"]


async def test_another_cluster_of_the_same_prometheus_is_left_out(prometheus: str, quotas: Quotas) -> None:
    found = await content(PastSource(prometheus, cluster="other"), quotas, HISTORY, "range=6h")
    assert set(found["memoryBytes"]) == {None}


async def test_an_unknown_range_is_named_with_those_that_exist(prometheus: str, quotas: Quotas) -> None:
    response = await asked(PastSource(prometheus), quotas, HISTORY, "range=1y")
    assert response.status == HTTPStatus.BAD_REQUEST
    assert response.body == b"range '1y' is unknown: use one of 6h, 24h, 7d, 30d\n"


async def test_the_ranges_are_known_before_prometheus_is_asked(quotas: Quotas) -> None:
    found = await content(PastSource("http://192.0.2.1:9090"), quotas, TIMES)
    assert (found["items"], found["note"]) == (["6h", "24h", "7d", "30d"], "")


async def test_without_a_prometheus_there_are_no_ranges_but_what_gives_them(quotas: Quotas) -> None:
    found = await content(PastSource(way=ON_ONE_MACHINE), quotas, TIMES)
    assert found["items"] == []
    assert found["note"].endswith("Start kubectl gpushare board with --prometheus URL.")
    assert (await asked(PastSource(), quotas, HISTORY, "range=7d")).status == HTTPStatus.NOT_FOUND


async def test_a_prometheus_that_does_not_answer_is_named(quotas: Quotas) -> None:
    (port,) = free_ports(1)
    response = await asked(PastSource(f"http://{LOOPBACK}:{port}"), quotas, HISTORY)
    assert response.status == HTTPStatus.BAD_GATEWAY
    assert f"http://{LOOPBACK}:{port}".encode() in response.body


async def test_many_users_ask_prometheus_once(quotas: Quotas) -> None:
    queries = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal queries
        queries += 1
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": []}})

    app = web.Application()
    app.router.add_post("/api/v1/query_range", answer)
    async with serving(app) as url:
        past = Past(PastSource(url), quotas.client)
        request = Request("GET", HISTORY, {}, None, keep_alive=True)
        await asyncio.gather(*(past.answer(request) for _ in range(20)))
    assert queries == 4
