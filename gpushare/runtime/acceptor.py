"""Accepts connections, and runs TLS handshakes, so that strangers cannot take all of the server's time.

At most one handshake begins in one turn of the event loop, for one source after the other. A source without
an accepted certificate may begin only a few per second.
"""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Final

import structlog

from gpushare.runtime.fairness import FairQueue, source_of
from gpushare.runtime.rate import RateLimit

log = structlog.get_logger()

_ACCEPTS: Final = 32
"""Connections accepted in one turn of the event loop."""
_PAUSE_S: Final = 1.0
"""Without accepting, after an error such as too many open files."""
_HANDSHAKE_S: Final = 5.0
_HANDSHAKES: Final = 32
"""Handshakes in progress for a source."""
_QUEUED: Final = 64
"""Connections of a source that wait for their handshake."""
_FAILURES_PER_S: Final = 20.0
_FAILURES: Final = 100.0
"""Handshakes of a source: each takes one, and gives it back if the certificate is accepted."""


class Acceptor:
    """Accepts the connections of a listener.

    ``connect`` makes a protocol for a source. ``admits`` decides whether the source may have another
    connection.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        connect: Callable[[str], asyncio.Protocol],
        admits: Callable[[str], bool],
        tls: ssl.SSLContext | None,
    ) -> None:
        self.refused: Counter[str] = Counter()
        """Connections closed at once, by source."""
        self._listener = listener
        self._connect = connect
        self._admits = admits
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._queue: FairQueue[socket.socket] = FairQueue()
        self._starting = False
        self._budget = RateLimit(_FAILURES_PER_S, _FAILURES)
        self._in_progress: dict[str, list[asyncio.Task[None]]] = {}
        self._resume: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Accept connections from now on."""
        self._loop.add_reader(self._listener, self._accept)

    async def end(self) -> None:
        """Accept no more connections, and give up the handshakes."""
        if self._resume:
            self._resume.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        while self._queue:
            self._queue.next()[1].close()
        tasks = [task for tasks in self._in_progress.values() for task in tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def report(self) -> None:
        """Log the refused connections since the last report."""
        self._budget.forget_full()
        if self.refused:
            source, _ = self.refused.most_common(1)[0]
            log.warning("connections_refused", count=self.refused.total(), most_from=source)
            self.refused.clear()

    def _accept(self) -> None:
        for _ in range(_ACCEPTS):
            try:
                wire, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            wire.setblocking(False)  # noqa: FBT003 - the socket API
            self._take(wire, source_of(address[0]))

    def _pause(self, error: OSError) -> None:
        log.warning("accept_failed", reason=str(error), retry_s=_PAUSE_S)
        self._loop.remove_reader(self._listener)
        self._resume = self._loop.call_later(_PAUSE_S, self.begin)

    def _take(self, wire: socket.socket, source: str) -> None:
        if self._tls is None:
            self._start(wire, source)
        elif self._queue.count(source) < _QUEUED and self._budget.take(source):
            self._queue.put(source, wire)
            self._start_soon()
        else:
            self._refuse(wire, source)

    def _refuse(self, wire: socket.socket, source: str) -> None:
        self.refused[source] += 1
        wire.close()

    def _start_soon(self) -> None:
        if self._queue and not self._starting:
            self._starting = True
            self._loop.call_soon(self._start_next)

    def _start_next(self) -> None:
        self._starting = False
        if self._queue:
            source, wire = self._queue.next()
            self._start(wire, source)
        self._start_soon()

    def _start(self, wire: socket.socket, source: str) -> None:
        if not self._admits(source):
            self._refuse(wire, source)
            return
        tasks = self._in_progress.setdefault(source, [])
        if self._tls and len(tasks) >= _HANDSHAKES:
            tasks[0].cancel()  # an honest handshake takes milliseconds
        task = self._loop.create_task(self._establish(wire, source))
        tasks.append(task)
        task.add_done_callback(lambda task: self._done(task, source))

    def _done(self, task: asyncio.Task[None], source: str) -> None:
        tasks = self._in_progress[source]
        tasks.remove(task)
        if not tasks:
            del self._in_progress[source]

    async def _establish(self, wire: socket.socket, source: str) -> None:
        """Make the connection; with TLS, after a handshake in which the client's certificate is accepted."""
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._connect(source),
                wire,
                ssl=self._tls,
                ssl_handshake_timeout=_HANDSHAKE_S if self._tls else None,
            )
        except (OSError, TimeoutError):  # SSLError is an OSError
            self.refused[source] += 1
            wire.close()
        else:
            if self._tls:
                self._budget.give_back(source)
