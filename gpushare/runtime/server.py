"""The HTTP/1.1 server of all daemons: small and fast, because kube-scheduler waits for each response.

It handles connections and the order of requests, not paths. A handler that can respond immediately returns
the response, which is written without a task; a handler that has to wait returns a coroutine. Each response
is one write with a Content-Length, and pipelined requests are answered in order.

No client can hold up the others: connections have turns, for one source (``source_of``) after the other, and
each source has a limited part of the connections and of the memory. ``acceptor`` limits the handshakes.
"""

import asyncio
import socket
import time
from collections import Counter
from dataclasses import dataclass
from ssl import SSLContext
from typing import Final

import structlog

from gpushare.runtime.acceptor import Acceptor
from gpushare.runtime.connection import Connection
from gpushare.runtime.fairness import FairQueue, FairSlots
from gpushare.runtime.http import Handler

log = structlog.get_logger()

_KEEP_ALIVE_S: Final = 120.0
"""Longer than the 90 s after which Go clients close idle connections, so that they close first."""
_AUTHENTICATED_S: Final = 3600.0
"""Certificates are verified when a connection starts, so a connection must not outlast them for long."""
_GRACE_S: Final = 5.0
_TURN_S: Final = 0.002
_TURN_REQUESTS: Final = 16
"""The most work in one turn of the event loop, before it reads again."""
_IDLE_S: Final = 0.0005
"""After such a pause, a request is handled where it is received, which saves a turn of the event loop."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a server, far above the needs of kube-scheduler.

    ``connections`` in all, ``source_connections`` of one source; ``memory_bytes`` of requests that are not
    answered yet, but always enough for four bodies of the maximum size; ``pending`` responses that handlers
    make at the same time, fewer than the connections to the API server that they use; ``request_s`` seconds
    in which a request must arrive.
    """

    connections: int = 1024
    source_connections: int = 256
    memory_bytes: int = 16 * 2**20
    pending: int = 240
    request_s: float = 30.0


_LIMITS: Final = ServerLimits()
_BODIES: Final = 4


class HttpServer:
    """Serves one handler. A body larger than ``max_body`` bytes is discarded.

    A connection with a client certificate ends with its first response after ``authenticated_s`` seconds.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        max_body: int,
        tls: SSLContext | None = None,
        keep_alive_s: float = _KEEP_ALIVE_S,
        authenticated_s: float = _AUTHENTICATED_S,
        limits: ServerLimits = _LIMITS,
    ) -> None:
        self.handler = handler
        self.max_body = max_body
        self.tasks: set[asyncio.Task[None]] = set()
        self.slots = FairSlots(limits.pending)
        self._sources: dict[str, set[Connection]] = {}
        self._count = 0
        self._memory = max(limits.memory_bytes, _BODIES * max_body)
        self._held = 0
        self._aborted: Counter[str] = Counter()
        self._ready: FairQueue[Connection] = FairQueue()
        self._queued: set[Connection] = set()
        self._receiving: set[Connection] = set()
        self._turn_scheduled = False
        self._idle_from = 0.0
        self.authenticated_s = authenticated_s
        self._tls = tls
        self._keep_alive_s = keep_alive_s
        self._limits = limits
        self._stop = asyncio.Event()

    @property
    def connections(self) -> list[Connection]:
        """The established connections."""
        return [connection for connections in self._sources.values() for connection in connections]

    def stop(self) -> None:
        """Make ``serve`` return."""
        self._stop.set()

    async def serve(self, listener: socket.socket) -> None:
        """Serve until ``stop``; then accept no more requests and let those in progress finish."""
        acceptor = Acceptor(
            listener,
            connect=lambda source: Connection(self, source),
            admits=self._has_room,
            tls=self._tls,
        )
        acceptor.begin()
        sweeping = asyncio.create_task(self._sweep(acceptor))
        try:
            await self._stop.wait()
        finally:
            sweeping.cancel()
            await acceptor.end()
            await self._drain()

    async def _drain(self) -> None:
        for connection in self.connections:
            connection.finish()
        if self.tasks:
            _, late = await asyncio.wait(self.tasks, timeout=_GRACE_S)
            for task in late:
                task.cancel()
        for connection in self.connections:
            connection.transport.close()

    async def _sweep(self, acceptor: Acceptor) -> None:
        """Close connections that send nothing, between requests or within one, or send too slowly."""
        while True:
            await asyncio.sleep(min(self._keep_alive_s, self._limits.request_s) / 10)
            now = time.monotonic()
            for connection in self.connections:
                connection.drop_if_slow(now - self._keep_alive_s, now - self._limits.request_s)
            acceptor.report()
            self._report_aborted()

    def _report_aborted(self) -> None:
        if self._aborted:
            source, _ = self._aborted.most_common(1)[0]
            log.warning("requests_aborted", reason="memory", count=self._aborted.total(), most_from=source)
            self._aborted.clear()

    # --- turns ----------------------------------------------------------------------------------------

    def receiving(self) -> bool:
        """Whether a request has arrived in part, or waits for a turn."""
        return bool(self._queued or self._receiving)

    @property
    def contended(self) -> bool:
        """Whether several connections wait for a turn."""
        return len(self._queued) > 1

    def received(self, connection: Connection, now: float) -> None:
        """Give the connection a turn, at once if the server was idle."""
        if self._queued or now < self._idle_from:
            self.ready(connection)
        else:
            self._idle_from = now + _IDLE_S
            self._work(connection)

    def ready(self, connection: Connection) -> None:
        """Give the connection a turn soon."""
        if connection not in self._queued:
            self._queued.add(connection)
            self._ready.put(connection.source, connection)
        self._turn_soon()

    def _turn_soon(self) -> None:
        if self._queued and not self._turn_scheduled:
            self._turn_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Let connections work, within the limits of a turn."""
        end = time.monotonic() + _TURN_S
        for _ in range(_TURN_REQUESTS):
            _, connection = self._ready.next()
            self._queued.discard(connection)
            self._work(connection)
            if not self._queued or time.monotonic() >= end:
                break
        self._turn_scheduled = False
        self._turn_soon()

    def _work(self, connection: Connection) -> None:
        connection.work()
        (self._receiving.add if connection.receiving else self._receiving.discard)(connection)

    # --- limits ---------------------------------------------------------------------------------------

    def _has_room(self, source: str) -> bool:
        """Whether the source may have another connection, perhaps in place of an idle one."""
        own = self._sources.get(source, set())
        if len(own) >= self._limits.source_connections:
            return _close_one(own)
        if self._count >= self._limits.connections:
            return _close_one(max(self._sources.values(), key=len))
        return True

    def opened(self, connection: Connection) -> None:
        """The connection is established."""
        self._sources.setdefault(connection.source, set()).add(connection)
        self._count += 1

    def closed(self, connection: Connection) -> None:
        """The connection has ended."""
        connections = self._sources[connection.source]
        connections.discard(connection)
        self._receiving.discard(connection)
        self._count -= 1
        if not connections:
            del self._sources[connection.source]

    def held(self, connection: Connection, change: int) -> None:
        """Count the bytes of requests. A source holds at most as much as is left for all others.

        Otherwise its connection that holds the most is aborted.
        """
        self._held += change
        if change <= 0 or self._held <= self._memory // 2:
            return
        own = self._sources[connection.source]
        if sum(each.held for each in own) > self._memory - self._held:
            largest = max(own, key=lambda each: each.held)
            self._aborted[largest.source] += 1
            largest.abort()


def _close_one(connections: set[Connection]) -> bool:
    """Close the idle connection with the fewest requests so far; returns whether there was one."""
    idle = [connection for connection in connections if connection.idle]
    if idle:
        min(idle, key=lambda each: each.answered).abort()
    return bool(idle)
