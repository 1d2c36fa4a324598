"""Forwards a TCP port from addresses of a node to another address, such as the loopback of this machine.

Run as a script: ``forward.py PID_FILE PORT TARGET ADDRESS…``; the pid file is that of the first process of
the node, which has its namespaces. What belongs here: sockets that listen in the node, and copying bytes. It
imports nothing of the testbed, because it starts once for every node.
"""

import asyncio
import ctypes
import json
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_CHUNK = 1 << 16
_LIBC = ctypes.CDLL(None, use_errno=True)


async def serve(listeners: Sequence[socket.socket], target: str, port: int) -> None:
    """Forward connections of ``listeners`` to ``port`` of ``target``, until killed."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _forward(reader, writer, target, port)

    servers = [await asyncio.start_server(handle, sock=listener) for listener in listeners]
    await asyncio.gather(*(server.serve_forever() for server in servers))


def listen(pid_file: Path, port: int, addresses: Sequence[str]) -> list[socket.socket]:
    """Return sockets that listen in the network of the node; this process returns to its own network."""
    holder = json.loads(pid_file.read_text())["pid"]
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    _enter(os.open(f"/proc/{holder}/ns/net", os.O_RDONLY))
    listeners = [socket.create_server((address, port)) for address in addresses]
    _enter(own)
    return listeners


def _enter(descriptor: int) -> None:
    if _LIBC.setns(descriptor, 0):
        raise OSError(ctypes.get_errno(), "cannot enter the network namespace")
    os.close(descriptor)


async def _forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str, port: int
) -> None:
    try:
        to_server = await asyncio.open_connection(target, port)
    except OSError:
        # The server is down: close the connection, as the client would see without forwarding.
        writer.transport.abort()
        return
    await asyncio.gather(_copy(reader, to_server[1]), _copy(to_server[0], writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    number = int(sys.argv[2])
    asyncio.run(serve(listen(Path(sys.argv[1]), number, sys.argv[4:]), sys.argv[3], number))
