"""Strangers on 127.0.0.2 that send, open or keep as much as they can, and a scheduler on 127.0.0.1."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpushare.runtime.http import PendingResponse, Request, Response, text_response
from gpushare.runtime.listener import bind_socket
from gpushare.runtime.server import HttpServer, ServerLimits
from gpushare.runtime.settings import TlsFiles
from gpushare.runtime.tls import MutualTls
from testbed.control_plane.pki import Authority
from tests.support.waiting import until

STRANGER = ("127.0.0.2", 0)
MAX_BODY = 100_000
_MANY = 1500
"""Requests of a stranger that wait in the kernel and in the server."""


@dataclass
class Wire:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, path: str, body: bytes = b"") -> bytes:
        """The body of the answer."""
        self.writer.write(request(path, body))
        async with asyncio.timeout(10):
            head = await self.reader.readuntil(b"\r\n\r\n")
            size = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length"))
            return await self.reader.readexactly(size)

    async def ended(self) -> bool:
        """Whether the server has ended the connection."""
        async with asyncio.timeout(10):
            with suppress(ConnectionError):
                return await self.reader.read() == b""
        return True


def request(path: str, body: bytes = b"") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def begun(size: int, sent: int) -> bytes:
    """The first bytes of a request with a body of that size."""
    return f"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * sent


@dataclass
class Scene:
    """A server that records the paths of its requests."""

    port: int
    server: HttpServer = field(init=False)
    asked: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    wires: list[Wire] = field(default_factory=list)

    def handle(self, asked: Request) -> Response | PendingResponse:
        self.asked.append(asked.path)
        return self._slow(asked.path) if asked.path.endswith("/slow") else text_response("ok")

    async def _slow(self, path: str) -> Response:
        self.begun.append(path)
        await self.gate.wait()
        return text_response("slow")

    async def connect(self, source: tuple[str, int] | None = None, tls: ssl.SSLContext | None = None) -> Wire:
        opened = await asyncio.open_connection("127.0.0.1", self.port, local_addr=source, ssl=tls)
        self.wires.append(Wire(*opened))
        return self.wires[-1]


@asynccontextmanager
async def scene(
    limits: ServerLimits | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Scene]:
    listener = bind_socket("127.0.0.1", 0)
    made = Scene(listener.getsockname()[1])
    server = made.server = HttpServer(
        made.handle, max_body=MAX_BODY, tls=tls, limits=limits or ServerLimits()
    )
    serving = asyncio.create_task(server.serve(listener))
    try:
        yield made
    finally:
        made.gate.set()
        for wire in made.wires:
            wire.writer.transport.abort()
        server.stop()
        async with asyncio.timeout(20):
            await serving


# --- turns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "most"),
    [
        pytest.param(STRANGER, 400, id="another-source"),
        pytest.param(None, 1000, id="the-same-source"),
    ],
)
async def test_the_requests_served_before_that_of_the_scheduler_are_bounded(
    source: tuple[str, int] | None, most: int
) -> None:
    """A turn of the event loop has 16 requests at most, and the kernel may deliver a request some turns late.

    A server without turns handles all 75,000 requests that wait.
    """
    async with scene() as s:
        scheduler = await s.connect()
        await scheduler.ask("/scheduler")
        for _ in range(50):
            stranger = await s.connect(source)
            stranger.writer.write(request("/stranger") * _MANY)
        for _ in range(20):
            before = len(s.asked)
            await scheduler.ask("/scheduler")
            assert s.asked.index("/scheduler", before) - before <= most
        assert s.asked.count("/stranger") < 50 * _MANY, "the flood lasted to the end"


async def test_a_body_that_comes_in_many_chunks_holds_up_no_one() -> None:
    async with scene() as s:
        scheduler, stranger = await s.connect(), await s.connect(STRANGER)
        stranger.writer.write(
            b"POST /stranger HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"1\r\nx\r\n" * 90_000
            + b"0\r\n\r\n"
        )
        await scheduler.ask("/scheduler")
        assert s.asked == ["/scheduler"]
        await until(lambda: "/stranger" in s.asked)


async def test_responses_that_take_long_leave_room_for_those_of_the_scheduler() -> None:
    """A bind, for example, waits for the API server."""
    async with scene(ServerLimits(pending=10)) as s:
        for _ in range(20):
            (await s.connect(STRANGER)).writer.write(request("/stranger/slow"))
        scheduler = await s.connect()
        await until(lambda: len(s.begun) == 5)
        scheduler.writer.write(request("/slow"))
        await until(lambda: "/slow" in s.begun)
        assert len(s.begun) == 6
        s.gate.set()
        await until(lambda: len(s.begun) == 21)


# --- connections -----------------------------------------------------------------------------------


async def test_of_too_many_connections_of_a_source_an_idle_one_with_the_fewest_requests_ends() -> None:
    async with scene(ServerLimits(source_connections=3)) as s:
        used, busy, idle = [await s.connect(STRANGER) for _ in range(3)]
        await used.ask("/a")
        busy.writer.write(request("/slow"))
        await until(lambda: "/slow" in s.asked)
        newest = await s.connect(STRANGER)
        assert await idle.ended()
        assert await newest.ask("/b") == b"ok"
        assert await used.ask("/c") == b"ok"


async def test_busy_connections_stay_and_the_new_one_is_refused() -> None:
    with capture_logs() as logs:
        async with scene(ServerLimits(source_connections=2, request_s=0.1)) as s:
            for wire in [await s.connect(STRANGER) for _ in range(2)]:
                wire.writer.write(request("/slow"))
            await until(lambda: s.asked == ["/slow", "/slow"])
            assert await (await s.connect(STRANGER)).ended()
            assert await (await s.connect()).ask("/scheduler") == b"ok"
            await until(lambda: any(entry["event"] == "connections_refused" for entry in logs))
    assert (
        next(entry for entry in logs if entry["event"] == "connections_refused")["most_from"] == STRANGER[0]
    )


async def test_of_too_many_connections_in_all_one_of_the_largest_source_ends() -> None:
    async with scene(ServerLimits(connections=4)) as s:
        for _ in range(3):
            await s.connect(STRANGER)
        first, second = await s.connect(), await s.connect()
        assert await first.ask("/a") == b"ok"
        assert await second.ask("/b") == b"ok"
        assert sorted(connection.source for connection in s.server.connections) == [
            "127.0.0.1",
            "127.0.0.1",
            *[STRANGER[0]] * 2,
        ]


async def test_a_request_that_comes_too_slowly_ends() -> None:
    async with scene(ServerLimits(request_s=0.3)) as s:
        stranger = await s.connect(STRANGER)
        stranger.writer.write(begun(100, 1))
        await until(lambda: s.server.connections)
        while s.server.connections:
            stranger.writer.write(b"x")
            await asyncio.sleep(0.05)
        assert s.asked == []


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [STRANGER, None], ids=["another-source", "the-same-source"])
async def test_bodies_that_never_end_take_a_limited_part_of_the_memory(
    source: tuple[str, int] | None,
) -> None:
    """The connection of the source that holds the most is aborted, and not that of the scheduler."""
    async with scene() as s:
        scheduler = await s.connect()
        memory = ServerLimits().memory_bytes
        for _ in range(2 * memory // MAX_BODY):
            with suppress(ConnectionError):
                stranger = await s.connect(source)
                stranger.writer.write(begun(MAX_BODY, MAX_BODY - 1))
                await stranger.writer.drain()
            assert await scheduler.ask("/scheduler", b"x" * 1000) == b"ok"
            assert sum(connection.held for connection in s.server.connections) <= memory // 2 + MAX_BODY


# --- handshakes -----------------------------------------------------------------------------------


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="x")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def test_strangers_without_a_certificate_do_not_keep_the_scheduler_from_connecting(
    tmp_path: Path,
) -> None:
    authority = Authority.create("ca")
    authority.server("extender", ["127.0.0.1"]).write(tmp_path, "tls")
    authority.client("scheduler").write(tmp_path, "client")
    (tmp_path / "ca.crt").write_bytes(authority.pair().cert)
    files = TlsFiles(*(str(tmp_path / name) for name in ("tls.crt", "tls.key", "ca.crt")))
    context = ssl.create_default_context(cafile=files.client_ca)
    context.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
    hello = client_hello()
    with capture_logs() as logs:
        async with scene(ServerLimits(request_s=1), MutualTls(files).server) as s:
            kept = await s.connect(tls=context)
            for _ in range(5):
                for _ in range(40):
                    (await s.connect(STRANGER)).writer.write(hello)
                assert await kept.ask("/scheduler") == b"ok"
                assert await (await s.connect(tls=context)).ask("/scheduler") == b"ok"
            await until(lambda: any(entry["event"] == "connections_refused" for entry in logs))
    refused = next(entry for entry in logs if entry["event"] == "connections_refused")
    assert refused["most_from"] == STRANGER[0]
