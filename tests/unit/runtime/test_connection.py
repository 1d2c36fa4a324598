"""Requests of one connection, however their bytes arrive."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from gpushare.runtime.connection import Connection
from gpushare.runtime.fairness import FairSlots
from gpushare.runtime.http import Request, Response, text_response


class TransportFake:
    """A fake transport that discards what is written."""

    def get_extra_info(self, name: str) -> Any:
        assert name == "peercert"

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        assert data.startswith(b"HTTP/1.1 200")

    def pause_reading(self) -> None:
        """Accepted; what was sent arrives nevertheless."""

    def resume_reading(self) -> None:
        """Accepted."""


@dataclass
class OwnerFake:
    """A fake server that gives turns on request."""

    max_body: int = 2**20
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    slots: FairSlots = field(default_factory=lambda: FairSlots(10))
    authenticated_s: float = 3600.0
    contended: bool = False
    held_bytes: int = 0
    waits: bool = False
    asked: list[tuple[str, bytes | None]] = field(default_factory=list)

    def handler(self, request: Request) -> Response:
        self.asked.append((request.path, request.body))
        return text_response("ok")

    def opened(self, connection: Connection) -> None:
        assert connection.idle

    def closed(self, connection: Connection) -> None:
        assert connection.idle

    def held(self, connection: Connection, change: int) -> None:
        assert connection.held >= 0
        self.held_bytes += change

    def received(self, connection: Connection, now: float) -> None:
        assert now
        self.ready(connection)

    def ready(self, connection: Connection) -> None:
        assert connection.source == "a"
        self.waits = True


def encoded(number: int, body: bytes, *, chunked: bool) -> bytes:
    head = f"POST /{number} HTTP/1.1\r\nHost: x\r\n"
    if not chunked:
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    parts = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + parts + b"0\r\n\r\n"


bodies = st.tuples(
    st.sampled_from((b"", b"x", b"\r\n\r\n", b"ab\r\n\r\n" * 900, b"y" * 20_000)), st.booleans()
)


@given(st.lists(bodies, min_size=1, max_size=6), st.data())
def test_requests_are_the_same_however_their_bytes_arrive(
    wanted: list[tuple[bytes, bool]], data: st.DataObject
) -> None:
    stream = b"".join(encoded(i, body, chunked=chunked) for i, (body, chunked) in enumerate(wanted))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    owner = OwnerFake()
    connection = Connection(owner, "a")
    connection.connection_made(cast("asyncio.BaseTransport", TransportFake()))
    for begin, end in zip((0, *cuts), (*cuts, len(stream)), strict=True):
        connection.data_received(stream[begin:end])
        while owner.waits and data.draw(st.booleans()):
            owner.waits = False
            connection.work()
    while owner.waits:
        owner.waits = False
        connection.work()
    assert owner.asked == [(f"/{i}", body) for i, (body, _) in enumerate(wanted)]
    assert connection.idle
    assert owner.held_bytes == 0
