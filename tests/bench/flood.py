"""``make bench PART=flood``: filter latency while strangers flood the scheduler's port.

The server is the real one with the filter verb and a ledger of 1,000 nodes, in a separate process. A
scheduler asks it 50 times a second on one connection from 127.0.0.1. Strangers are one process on 127.0.0.2:

- ``requests``: plain HTTP, 100 connections with pipelined GET requests, 10,000 a second.
- ``filters``: plain HTTP, 100 connections that send whole filter requests as fast as they are answered.
- ``handshakes``: mutual TLS, 10,000 connections a second that begin a handshake and have no certificate.
- ``bodies``: plain HTTP, 200 connections that send 30 MiB of a body and never end it.
"""

import asyncio
import json
import multiprocessing
import socket
import ssl
import struct
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import uvloop

from gpushare.extender.verbs import filter_steps
from gpushare.runtime.http import Request, Response, text_response
from gpushare.runtime.listener import bind_socket
from gpushare.runtime.server import HttpServer
from gpushare.runtime.settings import TlsFiles
from gpushare.runtime.tls import MutualTls
from testbed.control_plane.pki import Authority
from tests.bench.measuring import percentiles, rss_mib
from tests.support.builders.scheduling import cluster, node
from tests.support.machine import machine
from tests.support.steps import finished

_NODES: Final = [f"node-{index}" for index in range(1000)]
_POD: Final = {
    "metadata": {"name": "web", "namespace": "ns", "uid": "u"},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"aliyun.com/gpu-mem": "4"}}}]},
}
_BODY: Final = json.dumps({"Pod": _POD, "NodeNames": _NODES}).encode()
_FILTER: Final = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(_BODY) + _BODY
_GET: Final = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
_PER_SECOND: Final = 10_000
_PAUSE_S: Final = 0.02
_ENTRIES: Final = 32 * 2**20


@dataclass(frozen=True)
class Target:
    """The server: its port, and the folder of certificates if it requires them."""

    port: int
    folder: Path | None = None

    def context(self) -> ssl.SSLContext | None:
        """The scheduler's TLS context."""
        if self.folder is None:
            return None
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        context.load_cert_chain(self.folder / "client.crt", self.folder / "client.key")
        return context


def _serve(listener: socket.socket, folder: Path | None) -> None:
    ledger = cluster(*(node(name, *[14] * 8) for name in _NODES))
    files = folder and TlsFiles(*(str(folder / name) for name in ("tls.crt", "tls.key", "ca.crt")))

    def handle(request: Request) -> Response:
        if request.method == "GET" or request.body is None:
            return text_response("0.1.0")
        return Response(finished(filter_steps(request.body, ledger)).answer)

    server = HttpServer(handle, max_body=_ENTRIES, tls=MutualTls(files).server if files else None)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve(listener))


@contextmanager
def _process(work: Callable[..., None], *arguments: object) -> Iterator[BaseProcess]:
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


async def _scheduler(target: Target, seconds: float) -> list[float]:
    """Durations of filter requests on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port, ssl=target.context())
    found, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        writer.write(_FILTER)
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(size)
        found.append(time.perf_counter() - began)
        await asyncio.sleep(_PAUSE_S)
    writer.close()
    return found


# --- strangers ----------------------------------------------------------------------------------------

_STRANGER: Final = ("127.0.0.2", 0)


def _run(strangers: Callable[[Target, Any], Coroutine[Any, Any, None]], target: Target, count: Any) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(strangers(target, count))


async def _requests(target: Target, count: Any) -> None:
    """Pipelined requests at the rate, over 100 connections; what is not answered blocks its connection."""
    connections = 100
    batch = _GET * (_PER_SECOND // connections // 10)

    async def stranger() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", target.port, local_addr=_STRANGER)
                drained = asyncio.create_task(_count_answers(reader, count))
                while not drained.done():
                    writer.write(batch)
                    await writer.drain()
                    await asyncio.sleep(0.1)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(stranger() for _ in range(connections)))


async def _count_answers(reader: asyncio.StreamReader, count: Any) -> None:
    while data := await reader.read(2**16):
        count.value += data.count(b"HTTP/1.1 200")


async def _filters(target: Target, count: Any) -> None:
    async def stranger() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", target.port, local_addr=_STRANGER)
                writer.write(_FILTER)
                while data := await reader.read(2**16):
                    for _ in range(data.count(b"HTTP/1.1 200")):
                        count.value += 1
                        writer.write(_FILTER)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(stranger() for _ in range(100)))


async def _handshakes(target: Target, count: Any) -> None:
    """Connections that send a ClientHello and wait for the answer; at most 500 at a time."""
    hello, gate = _client_hello(), asyncio.Semaphore(500)

    async def stranger() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as wire:
            wire.setblocking(False)  # noqa: FBT003 - the socket API
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.bind(_STRANGER)
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(5):
                    await loop.sock_connect(wire, ("127.0.0.1", target.port))
                    await loop.sock_sendall(wire, hello)
                    answered = await loop.sock_recv(wire, 1)
                    count.value += bool(answered)
        gate.release()

    tasks = set()
    began, opened = time.monotonic(), 0
    while True:
        await gate.acquire()
        tasks.add(task := asyncio.create_task(stranger()))
        task.add_done_callback(tasks.discard)
        opened += 1
        if (ahead_s := opened / _PER_SECOND - (time.monotonic() - began)) > 0:
            await asyncio.sleep(ahead_s)


def _client_hello() -> bytes:
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="x").do_handshake()
    return outgoing.read()


async def _bodies(target: Target, count: Any) -> None:
    part = b"x" * 2**16

    async def stranger() -> None:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", target.port, local_addr=_STRANGER)
                writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % _ENTRIES)
                for _ in range(30 * 2**20 // len(part)):
                    writer.write(part)
                    await writer.drain()
                count.value += 1
                await asyncio.sleep(3600)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(stranger() for _ in range(200)))


_ARMS: Final = {"requests": _requests, "filters": _filters, "handshakes": _handshakes, "bodies": _bodies}


def _measure(name: str, seconds: float) -> None:
    """One arm: the same server without and with the flood."""
    with TemporaryDirectory() as folder, bind_socket("127.0.0.1", 0) as listener:
        secured = _certificates(Path(folder)) if name == "handshakes" else None
        target = Target(listener.getsockname()[1], secured)
        count = multiprocessing.get_context("fork").Value("q", 0)
        with _process(_serve, listener, secured) as server:
            idle = asyncio.run(_scheduler(target, seconds))
            assert server.pid
            before_mib = rss_mib(server.pid)
            with _process(_run, _ARMS[name], target, count):
                time.sleep(1)
                flooded, served = asyncio.run(_scheduler(target, seconds)), count.value
            click.echo(f"{name}: idle {percentiles(idle)}; flood {percentiles(flooded)}")
            answered = f"strangers were answered {served / (seconds + 1):,.0f} times a second"
            click.echo(
                f"  {len(flooded)} filters; {answered}; "
                f"memory {before_mib:.0f} → {rss_mib(server.pid):.0f} MiB"
            )


def _certificates(folder: Path) -> Path:
    authority = Authority.create("ca")
    authority.server("extender", ["127.0.0.1"]).write(folder, "tls")
    authority.client("scheduler").write(folder, "client")
    (folder / "ca.crt").write_bytes(authority.pair().cert)
    return folder


@click.command()
@click.option("--seconds", type=float, default=8.0, show_default=True, help="Duration of each measurement.")
@click.argument("arms", nargs=-1, type=click.Choice(list(_ARMS)))
def main(seconds: float, arms: tuple[str, ...]) -> None:
    """Measure filter latency without and with a flood."""
    click.echo(machine())
    for name in arms or _ARMS:
        _measure(name, seconds)


if __name__ == "__main__":
    main()
