"""Reads the running containers of a node from the files of containerd and its processes.

Run as a script on a node with its own kernel: ``observer.py ADDRESS PORT FORWARDED SOCKET``. Each connection
to PORT gets the containers as JSON, and one to FORWARDED is passed on to the unix socket. It imports nothing
of the product and of the testbed, because it starts at every boot.
"""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

BUNDLES = "run/containerd/io.containerd.runtime.v2.task/k8s.io"
_CHUNK = 1 << 16


def containers(root: Path) -> list[dict[str, Any]]:
    """Return annotations, environment and mounts of each container with a process, and that process."""
    # All bundles first: one that is there when a process is seen belongs to a container beside it.
    bundles = list((root / BUNDLES).glob("*"))
    return [found for each in bundles if (found := _container(root, each))]


def _container(root: Path, bundle: Path) -> dict[str, Any] | None:
    try:
        spec = json.loads((bundle / "config.json").read_text())
        pid = int((bundle / "init.pid").read_text())
        status = (root / f"proc/{pid}/status").read_text()
    except (OSError, ValueError):
        return None
    return {
        "annotations": spec.get("annotations", {}),
        "env": spec["process"].get("env", []),
        "mounts": [each["destination"] for each in spec.get("mounts", [])],
        "pid": pid,
        "status": dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line),
    }


async def serve(address: str, port: int, forwarded: int, target: str, root: Path = Path("/")) -> None:
    """Answer until killed."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps(containers(root)).encode())
        await _close(writer)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_target = await asyncio.open_unix_connection(target)
        except OSError:
            # The kubelet is down: close the connection, as the client would see without forwarding.
            writer.transport.abort()
            return
        await asyncio.gather(_copy(reader, to_target[1]), _copy(to_target[0], writer))

    servers = [
        await asyncio.start_server(answer, address, port),
        await asyncio.start_server(forward, address, forwarded),
    ]
    await asyncio.gather(*(each.serve_forever() for each in servers))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
