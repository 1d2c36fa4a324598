"""The FAKE Service forwards to endpoints that are ready."""

import asyncio

from devkit.ports import LOOPBACK
from tests.support.fakes.service import fake_service


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readline())
    writer.close()


async def _asked(port: int, line: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(line)
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_connection_reaches_an_endpoint_and_ends_with_it() -> None:
    server = await asyncio.start_server(_echo, LOOPBACK, 0)
    async with server, fake_service(lambda: [server.sockets[0].getsockname()[1]]) as service:
        assert await _asked(service.port, b"hello\n") == b"hello\n"


async def test_a_connection_without_an_endpoint_ends_at_once() -> None:
    async with fake_service(list) as service:
        assert await _asked(service.port, b"") == b""
