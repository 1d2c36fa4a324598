"""The server of the board in a cluster, over HTTP: logins, and the compressed document."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import aiohttp
import pytest
import pytest_asyncio

from gpushare.adapters.kube.client import KubeClient
from gpushare.board.admissions import Admissions
from gpushare.board.collect import Watched
from gpushare.board.daemon import BoardServer
from gpushare.board.local import LOOPBACK
from gpushare.board.login import ADMITTED, NO_TOKEN, Admission
from gpushare.board.past import Past, PastSource
from gpushare.board.routes import Document
from gpushare.board.server import listening
from gpushare.runtime.listener import bind_socket

pytestmark = pytest.mark.asyncio

LARGE = json.dumps({"nodes": ["gpu"] * 10_000}).encode()


@dataclass
class Cluster:
    """A FAKE of the watched cluster, and of the admissions: one token is good."""

    document: Document
    lost_since: float | None = None
    url: str = ""

    async def of(self, token: str) -> Admission:
        if self.lost_since:
            return Admission(HTTPStatus.SERVICE_UNAVAILABLE, "connection refused")
        return ADMITTED if token == "good" else NO_TOKEN  # noqa: S105 - that of the test


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[Cluster]:
    found = Cluster(Document(LARGE, "first"))
    server = BoardServer(
        cast("Watched", found), cast("Admissions", found), Past(PastSource(), cast("KubeClient", None))
    )
    with bind_socket(LOOPBACK, 0) as listener:
        async with listening(server.answer, listener):
            found.url = f"http://{LOOPBACK}:{listener.getsockname()[1]}"
            yield found


async def ask(cluster: Cluster, path: str, token: str = "", **headers: str) -> tuple[int, bytes, Any]:
    """Status, body as it was sent, and headers."""
    named = {key.replace("_", "-"): text for key, text in headers.items()}
    if token:
        named["authorization"] = f"Bearer {token}"
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(f"{cluster.url}{path}", headers={"accept-encoding": "identity"} | named) as response,
    ):
        return response.status, await response.read(), response.headers


async def test_every_request_needs_a_token(cluster: Cluster) -> None:
    assert (await ask(cluster, "/data"))[0] == 401
    assert (await ask(cluster, "/data", "bad"))[0] == 401
    assert (await ask(cluster, "/data", "good"))[:2] == (200, LARGE)
    assert b"Sign out" in (await ask(cluster, "/", "good"))[1]
    assert b"Sign in" in (await ask(cluster, "/", "bad"))[1]


async def test_earlier_days_need_a_token_and_a_prometheus(cluster: Cluster) -> None:
    for path in ("/history", "/tenants?range=7d"):
        assert (await ask(cluster, path, "bad"))[0] == 401
        status, body, _ = await ask(cluster, path, "good")
        assert status == 404
        assert b"this board knows none. Set prometheusUrl in monitoring.board" in body


async def test_the_page_learns_that_there_are_no_earlier_days(cluster: Cluster) -> None:
    assert (await ask(cluster, "/ranges", "bad"))[0] == 401
    found = json.loads((await ask(cluster, "/ranges", "good"))[1])
    assert found["items"] == []
    assert "prometheusUrl" in found["note"]


async def test_a_browser_gets_the_document_compressed_and_once(cluster: Cluster) -> None:
    status, body, headers = await ask(cluster, "/data", "good", accept_encoding="gzip, br")
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert len(body) < len(LARGE) / 20
    again = {"accept_encoding": "gzip", "if_none_match": headers["etag"]}
    assert (await ask(cluster, "/data", "good", **again))[:2] == (304, b"")
    assert (await ask(cluster, "/data", "good", if_none_match=headers["etag"]))[:2] == (200, LARGE)
    cluster.document = Document(b"{}", "second")
    assert (await ask(cluster, "/data", "good", **again))[0] == 200
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{cluster.url}/data", headers={"authorization": "Bearer good"}) as response,
    ):
        assert await response.json() == {}


async def test_while_the_api_server_is_silent_the_page_gets_the_time_and_no_document(
    cluster: Cluster,
) -> None:
    cluster.lost_since = 1_800_000_000.0
    status, body, _ = await ask(cluster, "/data", "good", accept_encoding="gzip")
    assert status == 503
    assert json.loads(body) == {"lost": {"since": 1_800_000_000.0, "reason": "connection refused"}}


async def test_a_login_by_the_form(cluster: Cluster) -> None:
    async with aiohttp.ClientSession() as session:
        for token, status in (("good", HTTPStatus.SEE_OTHER), ("bad", HTTPStatus.UNAUTHORIZED)):
            form = {"token": token}
            async with session.post(f"{cluster.url}/login", data=form, allow_redirects=False) as response:
                assert response.status == status
                assert ("set-cookie" in response.headers) == (token == "good")  # noqa: S105 - as above


async def test_a_form_of_megabytes_is_refused(cluster: Cluster) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{cluster.url}/login", data=b"token=" + b"a" * 2**16) as response,
    ):
        assert response.status == 413
