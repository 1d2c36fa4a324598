"""The server on real sockets: order, limits, bad input, keep-alive and closed connections."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gpushare.runtime.fairness import TimeSlices
from gpushare.runtime.http import Handler, PendingResponse, Request, Response, text_response
from gpushare.runtime.listener import bind_socket
from gpushare.runtime.server import HttpServer
from tests.support.waiting import until

OK = b"HTTP/1.1 200 OK"
MAX_BODY = 1000


@dataclass
class Scene:
    """A server with a handler that echoes requests, and can delay answers."""

    server: HttpServer = field(init=False)
    serving: asyncio.Task[None] = field(init=False)
    port: int = field(init=False)
    asked: list[Request] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    wires: list["Wire"] = field(default_factory=list)

    def handle(self, request: Request) -> Response | PendingResponse:
        self.asked.append(request)
        match request.path:
            case "/slow":
                return self._slow()
            case "/crash":
                raise RuntimeError("a defect")
            case "/slow-crash":
                return self._slow_crash()
            case "/big":
                return Response(b"x" * 2**20)
        body = b"too large" if request.body is None else request.body
        return text_response(f"{request.method} {request.path} {body.decode()}")

    async def _slow(self) -> Response:
        await self.gate.wait()
        return text_response("slow")

    async def _slow_crash(self) -> Response:
        await self.gate.wait()
        raise RuntimeError("a defect")

    async def connect(self) -> "Wire":
        self.wires.append(Wire(*await asyncio.open_connection("127.0.0.1", self.port)))
        return self.wires[-1]

    async def once(self, data: bytes) -> bytes:
        """All bytes from the server until it closes the connection."""
        wire = await self.connect()
        wire.writer.write(data)
        return await wire.rest()


@dataclass
class Wire:
    """One client connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, data: bytes) -> tuple[bytes, bytes]:
        self.writer.write(data)
        return await self.answer()

    async def answer(self) -> tuple[bytes, bytes]:
        """Head and body of the next answer."""
        async with asyncio.timeout(5):
            head = await self.reader.readuntil(b"\r\n\r\n")
            (size,) = (
                int(line.split(b":")[1]) for line in head.splitlines() if line.startswith(b"content-length")
            )
            return head, await self.reader.readexactly(size)

    async def rest(self) -> bytes:
        async with asyncio.timeout(5):
            return await self.reader.read()


@asynccontextmanager
async def scene(handler: Handler | None = None, keep_alive_s: float = 60) -> AsyncIterator[Scene]:
    made = Scene()
    listener = bind_socket("127.0.0.1", 0)
    made.port = listener.getsockname()[1]
    made.server = HttpServer(handler or made.handle, max_body=MAX_BODY, keep_alive_s=keep_alive_s)
    made.serving = asyncio.create_task(made.server.serve(listener))
    try:
        yield made
    finally:
        made.gate.set()
        made.server.stop()
        for wire in made.wires:
            wire.writer.close()
        async with asyncio.timeout(10):
            await made.serving


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join((f"GET {path} HTTP/1.1", "Host: x", *headers, "", "")).encode()


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = (f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


# --- requests -------------------------------------------------------------------------------------


async def test_one_connection_serves_one_request_after_the_other() -> None:
    async with scene() as s:
        wire = await s.connect()
        for number in range(3):
            head, body = await wire.ask(post(f"/a{number}", b"hello"))
            assert head.startswith(OK)
            assert b"connection: close" not in head
            assert body == f"POST /a{number} hello".encode()
        assert len(s.server.connections) == 1


async def test_pipelined_requests_are_answered_in_order_with_a_slow_first_one() -> None:
    async with scene() as s:
        wire = await s.connect()
        wire.writer.write(get("/slow") + get("/a") + post("/b", b"x"))
        await until(lambda: len(s.asked) == 1)
        s.gate.set()
        assert [(await wire.answer())[1] for _ in range(3)] == [b"slow", b"GET /a ", b"POST /b x"]


async def test_a_request_may_come_byte_by_byte() -> None:
    async with scene() as s:
        wire = await s.connect()
        for byte in post("/a", b"hello", "X-Some: Thing"):
            wire.writer.write(bytes((byte,)))
            await wire.writer.drain()
            await asyncio.sleep(0)
        assert (await wire.answer())[1] == b"POST /a hello"
        assert s.asked[0].headers[b"x-some"] == b"Thing"


async def test_a_chunked_body_is_put_together() -> None:
    async with scene() as s:
        wire = await s.connect()
        head = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert (await wire.ask(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"))[1] == b"POST /a abcde"
        assert (await wire.ask(get("/b")))[1] == b"GET /b "


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/a?b=c", "/a"),
        ("/a%20b%C3%A9", "/a b\N{LATIN SMALL LETTER E WITH ACUTE}"),
        ("http://host:1/a", "/a"),
        ("http://host", "/"),
    ],
)
async def test_the_path_is_decoded_and_without_query(target: str, path: str) -> None:
    async with scene() as s:
        await (await s.connect()).ask(get(target))
        assert s.asked[0].path == path


async def test_a_client_that_expects_100_continue_gets_it() -> None:
    async with scene() as s:
        wire = await s.connect()
        head, _, body = post("/a", b"hello", "Expect: 100-continue").partition(b"\r\n\r\n")
        wire.writer.write(head + b"\r\n\r\n")
        async with asyncio.timeout(5):
            assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await wire.ask(body))[1] == b"POST /a hello"


async def test_head_gets_the_length_and_no_body() -> None:
    async with scene() as s:
        answer = await s.once(b"HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"content-length: 8\r\n" in answer
        assert answer.endswith(b"\r\n\r\n")


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"POST /a HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /a HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /a HTTP/1.1\r\nX: " + b"y" * 70_000,
        b"GET /" + b"y" * 70_000,
    ],
    ids=["text", "tls", "length", "smuggling", "connect", "http2", "endless-header", "endless-path"],
)
async def test_an_invalid_request_is_answered_and_ends_the_connection(data: bytes) -> None:
    async with scene() as s:
        answer = await s.once(data)
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert b"connection: close\r\n" in answer
        assert s.asked == []


async def test_a_request_followed_by_garbage_is_answered() -> None:
    async with scene() as s:
        wire = await s.connect()
        wire.writer.write(get("/slow") + b"nonsense\r\n\r\n")
        await until(lambda: len(s.asked) == 1)
        s.gate.set()
        first, second = (await wire.answer())[0], await wire.rest()
        assert first.startswith(OK)
        assert second.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large_reaches_the_handler_as_none_and_ends_the_connection(
    *, chunked: bool
) -> None:
    body = b"x" * (MAX_BODY + 1)
    data = post("/a", body)
    if chunked:
        data = b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body
    async with scene() as s:
        answer = await s.once(data)
        assert answer.endswith(b"POST /a too large")
        assert b"connection: close\r\n" in answer


async def test_a_body_of_the_allowed_size_is_taken() -> None:
    async with scene() as s:
        assert (await (await s.connect()).ask(post("/a", b"x" * MAX_BODY)))[1].endswith(b"x" * MAX_BODY)


@pytest.mark.parametrize("path", ["/crash", "/slow-crash"])
async def test_a_bug_fails_one_request(path: str) -> None:
    async with scene() as s:
        s.gate.set()
        wire = await s.connect()
        head, body = await wire.ask(get(path))
        assert head.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
        assert body == b"Internal Server Error"
        assert (await wire.ask(get("/a")))[1] == b"GET /a "


# --- connections ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        get("/a", "Connection: close"),
        b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        get("/a", "Connection: Upgrade", "Upgrade: h2c"),
    ],
    ids=["asked", "http1.0", "upgrade"],
)
async def test_some_requests_are_their_connections_last(data: bytes) -> None:
    async with scene() as s:
        answer = await s.once(data + get("/b"))
        assert b"connection: close\r\n" in answer
        assert answer.endswith(b"GET /a ")
        assert len(s.asked) == 1


async def test_a_client_that_does_not_read_is_not_read_from_either() -> None:
    async with scene() as s:
        wire = await s.connect()
        wire.writer.write(get("/big") * 200)
        await until(lambda: len(s.asked) > 0)
        await asyncio.sleep(0.05)  # time in which an unbounded server would answer all of them
        assert len(s.asked) < 100
        for _ in range(200):
            assert len((await wire.answer())[1]) == 2**20


async def test_idle_connections_end_and_busy_ones_stay() -> None:
    async with scene(keep_alive_s=0.1) as s:
        idle, halfway, busy = [await s.connect() for _ in range(3)]
        halfway.writer.write(b"GET /a HT")
        busy.writer.write(get("/slow"))
        assert await idle.rest() == b""
        assert await halfway.rest() == b""
        s.gate.set()
        assert (await busy.answer())[1] == b"slow"


async def test_a_request_in_progress_continues_without_its_client() -> None:
    begun, release, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def effect() -> Response:
        begun.set()
        await release.wait()
        ended.set()
        return text_response("done")

    async with scene(lambda _: effect()) as s:
        wire = await s.connect()
        wire.writer.write(get("/a"))
        await begun.wait()
        wire.writer.transport.abort()
        await until(lambda: not s.server.connections)
        release.set()
        await until(ended.is_set)


async def test_stopping_ends_idle_connections_and_lets_an_answer_under_way_be_the_last() -> None:
    async with scene() as s:
        idle, busy = await s.connect(), await s.connect()
        await idle.ask(get("/a"))
        busy.writer.write(get("/slow") + get("/never"))
        await until(lambda: len(s.asked) == 2)
        s.server.stop()
        assert await idle.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            await s.connect()
        assert not s.serving.done()
        s.gate.set()
        answer = await busy.rest()
        assert answer.endswith(b"slow")
        assert b"connection: close\r\n" in answer
        await _in_time(s.serving)


async def _in_time(task: Awaitable[None]) -> None:
    async with asyncio.timeout(5):
        await task


async def test_a_header_that_comes_twice_keeps_its_values_apart() -> None:
    async with scene() as made:
        wire = await made.connect()
        await wire.ask(b"GET /x HTTP/1.1\r\nX-Group: a,b\r\nx-other: 1\r\nx-group: c\r\n\r\n")
        assert made.asked[0].headers == {b"x-group": b"a,b\nc", b"x-other": b"1"}


async def test_the_query_is_passed_on_unchanged() -> None:
    async with scene() as made:
        wire = await made.connect()
        await wire.ask(b"GET /a%20b?c=%20d&e HTTP/1.1\r\n\r\n")
        assert (made.asked[0].path, made.asked[0].query, made.asked[0].certificate) == (
            "/a b",
            "c=%20d&e",
            None,
        )


async def test_a_server_receives_from_the_first_part_of_a_request_until_it_is_handled() -> None:
    async with scene() as s:
        wire = await s.connect()
        wire.writer.write(b"POST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\nab")
        await until(s.server.receiving)
        assert await wire.ask(b"cd")
        assert not s.server.receiving()
        wire.writer.write(get("/slow"))
        await until(lambda: len(s.asked) == 2)
        assert not s.server.receiving()
        lost = await s.connect()
        lost.writer.write(b"POST /a HTTP/1.1\r\n")
        await until(s.server.receiving)
        lost.writer.close()
        await until(lambda: not s.server.receiving())


async def test_a_request_in_parts_waits_for_no_background_work() -> None:
    """Not for more than one slice, which may have begun before."""
    gate, slices, at_request = TimeSlices(clock=lambda: 0.0), 0, list[int]()

    async def job() -> None:
        nonlocal slices
        while True:
            await gate.turn()
            slices += 1

    def handle(request: Request) -> Response:
        at_request.append(slices)
        return text_response(str(request.body))

    async def received(size: int) -> None:
        await until(lambda: sum(each.held for each in s.server.connections) == size)

    async with scene(handle) as s:
        gate.yield_to(s.server.receiving)
        jobs = [asyncio.create_task(job()) for _ in range(3)]
        await until(lambda: slices > 10)
        wire = await s.connect()
        head = b"POST /a HTTP/1.1\r\nContent-Length: 10\r\n\r\n"
        wire.writer.write(head)
        await received(len(head))
        before = slices
        for number in range(9):
            wire.writer.write(b"x")
            await received(len(head) + 1 + number)
        assert (await wire.ask(b"x"))[1] == b"b'xxxxxxxxxx'"
        after = slices
        await until(lambda: slices > after)
        for each in jobs:
            each.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
    assert at_request[0] - before <= 1
