"""Answers and timeouts of the API server as our errors."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from gpushare.adapters.kube import client as client_module
from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.client import KubeClient
from gpushare.errors import ApiError, ConfigError
from gpushare.runtime.listener import bind_socket
from tests.support.waiting import until
from tests.unit.adapters.fakes import Answer, fixed, serving


async def failure(answer: Answer) -> ApiError:
    async with serving() as served:
        served.script.append(answer)
        with pytest.raises(ApiError) as caught:
            await served.client.request("GET", "/x", timeout_s=5)
        return caught.value


async def test_the_body_of_a_good_answer() -> None:
    async with serving() as served:
        served.script.append(fixed(201, b"{}"))
        assert await served.client.request("POST", "/x", timeout_s=5, query={"a": "b c"}, body={}) == b"{}"
        assert served.asked == [{"a": "b c"}]


async def test_a_body_is_sent_with_its_content_type() -> None:
    seen: list[tuple[str, object]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append((request.content_type, await request.json()))
        return web.Response()

    async with serving() as served:
        served.script.extend((answer, answer))
        await served.client.request("PUT", "/x", timeout_s=5, body={"a": None})
        await served.client.request("PATCH", "/x", timeout_s=5, body={"a": None})
    assert seen == [("application/json", {"a": None}), ("application/merge-patch+json", {"a": None})]


@asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[KubeClient, asyncio.Future[tuple[bytes, bool]]]]:
    """A client of a server that does not answer; the future has what it read, and whether RST ended it."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data, reset = b"", False
        try:
            while part := await reader.read(2**16):
                data += part
        except ConnectionResetError:
            reset = True
        received.set_result((data, reset))
        writer.close()

    received: asyncio.Future[tuple[bytes, bool]] = asyncio.get_running_loop().create_future()
    async with await asyncio.start_server(accept, "127.0.0.1") as server:
        host, port = server.sockets[0].getsockname()
        async with KubeClient(ApiAccess(host=f"http://{host}:{port}")) as client:
            yield client, received


async def test_a_fence_is_checked_once_connected_and_its_refusal_sends_nothing() -> None:
    async with silent_server() as (client, received):
        with pytest.raises(ApiError, match="too late") as caught:
            await client.request("POST", "/x", timeout_s=5, body={}, fence=lambda: "too late")
        assert caught.value.unsent
        assert caught.value.clear
        data, _ = await asyncio.wait_for(received, 5)
    assert data == b""


async def test_an_open_fence_lets_the_request_pass() -> None:
    async with serving() as served:
        served.script.append(fixed(201, b"{}"))
        assert await served.client.request("POST", "/x", timeout_s=5, body={}, fence=lambda: None) == b"{}"


async def test_the_authorization_is_asked_for_at_each_request() -> None:
    seen: list[str | None] = []
    tokens = iter(["Bearer first", "Bearer second", None])

    async def authorization() -> str | None:
        return next(tokens)

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization"))
        return web.Response()

    async with serving() as served:
        served.script.extend([answer] * 3)
        access = ApiAccess(host=served.client.host, authorization=authorization)
        async with KubeClient(access) as client:
            for _ in range(3):
                await client.request("GET", "/x", timeout_s=5)
    assert seen == ["Bearer first", "Bearer second", None]


@asynccontextmanager
async def waiting_for_credentials() -> AsyncIterator[KubeClient]:
    """A client whose plugin does not end."""

    async def authorization() -> str | None:
        await asyncio.Event().wait()
        return None

    access = ApiAccess(host="http://api.test", authorization=authorization, credentials="exec plugin login")
    async with KubeClient(access) as client:
        yield client


async def test_a_request_does_not_wait_for_credentials_after_its_timeout() -> None:
    async with waiting_for_credentials() as client:
        with pytest.raises(ApiError, match=r"^POST http://api.test/x: no .* exec plugin login") as caught:
            await client.request("POST", "/x", timeout_s=0.01, body={})
    assert (caught.value.reason, caught.value.unsent, caught.value.clear) == ("Timeout", True, True)


async def test_a_stream_does_not_wait_for_credentials_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_CREDENTIALS_S", 0.01)
    async with waiting_for_credentials() as client:
        with pytest.raises(ApiError, match="from exec plugin login"):
            await anext(client.stream("/x", silence_s=600))


async def test_the_time_for_credentials_is_part_of_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(client_module, "_clock", lambda: now)

    async def authorization() -> str | None:
        nonlocal now
        now += 599.9
        return None

    async with serving() as served:
        access = ApiAccess(host=served.client.host, authorization=authorization)
        async with KubeClient(access) as client, asyncio.timeout(20):
            with pytest.raises(ApiError, match="no answer in time"):
                await client.request("GET", "/x", timeout_s=600)


async def test_rejected_credentials_are_reported() -> None:
    rejected: list[int] = []
    async with serving() as served:
        served.script.extend([fixed(status, "") for status in (403, 401)])
        access = ApiAccess(host=served.client.host, rejected=lambda: rejected.append(1))
        async with KubeClient(access) as client:
            for expected in ([], [1]):
                with pytest.raises(ApiError):
                    await client.request("GET", "/x", timeout_s=5)
                assert rejected == expected


async def test_a_proxy_is_asked_instead_of_the_server() -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request.host)
        return web.Response(body=b"{}")

    async with serving() as served:
        served.script.append(answer)
        async with KubeClient(ApiAccess(host="http://api.test", proxy=served.client.host)) as client:
            assert await client.request("GET", "/x", timeout_s=5) == b"{}"
    assert seen == ["api.test"]


async def test_a_status_object_is_the_error() -> None:
    error = await failure(fixed(409, '{"kind":"Status","message":"already assigned","reason":"Conflict"}'))
    assert (str(error), error.status, error.reason) == ("already assigned", 409, "Conflict")
    assert error.clear


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        (
            '{"causes":[{"reason":"NamespaceTerminating","field":"metadata.namespace"}]}',
            "NamespaceTerminating",
        ),
        ('{"causes":[{"message":"no reason"}]}', "Forbidden"),
        ('{"causes":null}', "Forbidden"),
        ("null", "Forbidden"),
    ],
)
async def test_the_reason_of_a_cause_is_preferred_because_it_is_more_specific(
    details: str, reason: str
) -> None:
    text = '{"kind":"Status","message":"no","reason":"Forbidden","details":' + details + "}"
    error = await failure(fixed(403, text))
    assert (str(error), error.status, error.reason) == ("no", 403, reason)


async def test_a_body_that_is_no_json_is_shown_with_the_request() -> None:
    error = await failure(fixed(502, "<html>bad gateway \N{SNOWMAN}</html>".encode() + b"\xff"))
    assert str(error).startswith("GET /x: HTTP 502: <html>bad gateway \N{SNOWMAN}</html>")
    assert not error.clear


async def test_rejected_credentials_are_named_with_the_request() -> None:
    error = await failure(fixed(401, '{"kind":"Status","message":"Unauthorized","reason":"Unauthorized"}'))
    assert str(error) == "GET /x: HTTP 401: the API server does not accept these credentials"
    assert error.reason == "Unauthorized"


async def test_an_address_that_the_api_server_does_not_proxy_is_explained_with_the_way_out() -> None:
    error = await failure(
        fixed(400, '{"kind":"Status","message":"address not allowed","reason":"BadRequest"}')
    )
    assert str(error).startswith("GET /x: HTTP 400: address not allowed: ")
    assert "loopback or link-local" in str(error)
    assert "--node-ip" in str(error)
    assert error.reason == "BadRequest"


async def test_an_error_without_a_body_names_the_request() -> None:
    assert str(await failure(fixed(503))) == "GET /x: HTTP 503"


async def test_a_long_error_is_cut() -> None:
    assert len(str(await failure(fixed(500, "x" * 10_000)))) == 500


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7.0), ("", 0.0), ("soon", 0.0), ("-1", 0.0), ("²", 0.0), ("1e9", 0.0)]
)
async def test_retry_after_counts_if_it_is_a_number(header: str, seconds: float) -> None:
    assert (await failure(fixed(429, Retry_After=header))).retry_after_s == seconds


@pytest.mark.parametrize("header", ["61", "86400", "9" * 400])
async def test_retry_after_counts_as_a_minute_at_most(header: str) -> None:
    assert (await failure(fixed(429, Retry_After=header))).retry_after_s == 60


async def test_a_timeout_is_an_error_that_is_not_clear() -> None:
    async with serving() as served:
        with pytest.raises(ApiError, match=r"GET http://127.*/x: no answer in time") as caught:
            await served.client.request("GET", "/x", timeout_s=1)
        assert (caught.value.status, caught.value.reason, caught.value.clear) == (0, "Timeout", False)


async def test_a_request_without_a_connection_was_not_sent() -> None:
    taken = bind_socket("127.0.0.1", 0)
    port = taken.getsockname()[1]
    taken.close()
    async with KubeClient(ApiAccess(host=f"http://127.0.0.1:{port}")) as client:
        with pytest.raises(ApiError, match="POST") as caught:
            await client.request("POST", "/x", timeout_s=5, body={})
    error = caught.value
    assert (error.reason, error.unsent, error.clear) == ("Unreachable", True, True)


async def test_a_request_that_waits_for_a_connection_in_vain_was_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = 4  # as many as a loaded machine opens within the time to connect
    monkeypatch.setattr(client_module, "MAX_CONNECTIONS", most)
    async with serving() as served, asyncio.TaskGroup() as others:
        waiting = [others.create_task(served.client.request("GET", "/x", timeout_s=300)) for _ in range(most)]
        await until(lambda: len(served.asked) == most)
        with pytest.raises(ApiError, match="no answer in time") as caught:
            await served.client.request("POST", "/x", timeout_s=0.1, body={})
        for task in waiting:
            task.cancel()
    assert caught.value.unsent


async def test_a_request_without_an_answer_resets_its_connection() -> None:
    """After a graceful close the kernel would go on sending what the server has not acknowledged."""
    async with silent_server() as (client, received):
        with pytest.raises(ApiError, match="no answer in time") as caught:
            await client.request("POST", "/x", timeout_s=1, body={})
        assert (caught.value.unsent, caught.value.clear) == (False, False)
        data, reset = await asyncio.wait_for(received, 5)
    assert (data[:6], reset) == (b"POST /", True)


async def test_data_that_the_server_does_not_acknowledge_ends_the_connection_before_the_deadline() -> None:
    """The kernel would repeat it for minutes, even after the end of the process: a bind that arrives late."""
    with bind_socket("127.0.0.1", 0) as unread:
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        access = ApiAccess(host=f"http://127.0.0.1:{unread.getsockname()[1]}")
        async with KubeClient(access, unacked_s=0.2) as client:
            with pytest.raises(ApiError, match="timed out") as caught:
                await client.request("POST", "/x", timeout_s=20, body={"data": "x" * 200_000})
    assert (caught.value.unsent, caught.value.clear) == (False, False)


def test_connections_without_data_are_probed() -> None:
    """Otherwise a watch stays open, and silent, after its API server has lost power."""
    client = KubeClient(ApiAccess(host="http://localhost"))
    with client._socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))) as connection:
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15


async def test_a_stream_without_data_is_an_error() -> None:
    async with serving() as served:
        served.script.append(served.stream(b"one"))
        chunks = served.client.stream("/x", silence_s=1)
        assert [await anext(chunks), await anext(chunks)] == [b"", b"one"]
        with pytest.raises(ApiError, match="no answer in time"):
            await anext(chunks)


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe"])
def test_tls_files_that_cannot_be_used_are_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"TLS files {path}: "):
        KubeClient(ApiAccess(host="https://localhost", ca=path))
