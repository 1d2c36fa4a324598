"""FAKE Service: connections to one address go to one of several endpoints, as kube-proxy forwards them."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from devkit.ports import LOOPBACK

_CHUNK = 65536


@dataclass
class FakeService:
    """``endpoints`` returns the ports on loopback that are ready now; each connection takes one at random."""

    endpoints: Callable[[], Sequence[int]]
    port: int = 0
    _dice: random.Random = field(default_factory=lambda: random.Random(18))
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until either side ends it; without an endpoint it ends at once."""
        self._open.add(writer)
        try:
            if ports := self.endpoints():
                with suppress(OSError):
                    await self._forward(reader, writer, self._dice.choice(ports))
        finally:
            self._open.discard(writer)
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        behind, ahead = await asyncio.open_connection(LOOPBACK, port)
        ways = [asyncio.create_task(_copy(*way)) for way in ((reader, ahead), (behind, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ways:
                each.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            ahead.close()

    def drop(self) -> None:
        """End all connections."""
        for each in list(self._open):
            each.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while chunk := await source.read(_CHUNK):
        target.write(chunk)
        await target.drain()


@asynccontextmanager
async def fake_service(endpoints: Callable[[], Sequence[int]]) -> AsyncIterator[FakeService]:
    """A running service on loopback."""
    service = FakeService(endpoints)
    server = await asyncio.start_server(service.connect, LOOPBACK, 0)
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()
        service.drop()
