"""A reverse proxy in front of the real API server that injects faults.

Every answer without a fault comes from the API server. The proxy listens on loopback and authenticates to
the API server as the user of ``context``.
"""

import asyncio
import re
import socket
import ssl
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web

Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
"""Inspects a request; returns an answer, or None to pass the request on."""

_HOP_HEADERS = {"host", "content-length", "transfer-encoding", "connection", "content-encoding"}


@dataclass
class FaultProxy:
    """One proxy; ``faults`` are called in order. ``seen`` lists "METHOD path" of all requests."""

    upstream: str
    context: ssl.SSLContext
    faults: list[Fault] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    port: int = 0
    watches_flow: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is cleared, open watches deliver nothing."""
    watch_delay_s: float = 0
    """How late watches deliver."""
    delivered: deque[bytes] = field(default_factory=lambda: deque(maxlen=1000))
    """The last parts of watches that clients got."""
    _session: aiohttp.ClientSession | None = None
    _server: web.Server | None = None
    _streaming: dict[int, web.Request] = field(default_factory=dict)
    _background: set["asyncio.Task[None]"] = field(default_factory=set)

    def has_shown_deletion(self, name: str) -> bool:
        """Whether a watch has delivered that the object with this name is gone, in JSON or protobuf."""
        event = rb"DELETED.{0,100}?\b" + re.escape(name).encode() + rb"\b"
        return re.search(event, b"".join(self.delivered), re.DOTALL) is not None

    def kubeconfig(self, folder: Path, ca: Path | None = None) -> Path:
        """A kubeconfig for the proxy; ``ca`` is the file of its authority if it has TLS."""
        address = f"127.0.0.1:{self.port}"
        cluster = (
            {"server": f"https://{address}", "certificate-authority": str(ca)}
            if ca
            else {"server": f"http://{address}"}
        )
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "p", "cluster": cluster}],
            "users": [{"name": "p", "user": {}}],
            "contexts": [{"name": "p", "context": {"cluster": "p", "user": "p"}}],
            "current-context": "p",
        }
        path = folder / f"proxy-{self.port}.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request with a fault or from the API server."""
        self.seen.append(f"{request.method} {request.path}")
        if "watch" in request.query:
            # From its arrival: a watch that the API server has not answered yet is dropped too.
            self._streaming[id(request)] = request
        try:
            return await self._answer(request)
        except aiohttp.ClientError:
            # The API server does not answer, or the client has gone: the client's connection breaks too.
            if request.transport:
                request.transport.abort()
            return web.Response()
        finally:
            self._streaming.pop(id(request), None)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        for fault in list(self.faults):
            answer = await fault(request)
            if answer is not None:
                return answer
        return await self.forward(request)

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on, streaming the answer."""
        assert self._session is not None
        body = await request.read()
        url, headers = self.upstream + request.path_qs, _passed(request.headers)
        async with self._session.request(request.method, url, data=body or None, headers=headers) as reply:
            answer = web.StreamResponse(status=reply.status, headers=_passed(reply.headers))
            await answer.prepare(request)
            self._streaming[id(request)] = request
            try:
                async for chunk in reply.content.iter_any():
                    if "watch" in request.query:
                        await self.watches_flow.wait()
                        await asyncio.sleep(self.watch_delay_s)
                    await answer.write(chunk)
                    if "watch" in request.query:
                        self.delivered.append(chunk)
                await answer.write_eof()
            except aiohttp.ClientConnectionResetError:
                # A client may end its watch at any time; aiohttp would log that with a traceback.
                if request.transport and not request.transport.is_closing():
                    raise
            return answer

    def later(self, request: web.Request, delay_s: float) -> None:
        """Pass a request on after a delay, even if the client has gone."""

        async def send() -> None:
            body = await request.read()
            method, url, headers = request.method, self.upstream + request.path_qs, _passed(request.headers)
            await asyncio.sleep(delay_s)
            assert self._session is not None
            with suppress(aiohttp.ClientError):
                async with self._session.request(method, url, data=body, headers=headers) as reply:
                    await reply.read()

        task = asyncio.create_task(send())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def forward_and_reset(self, request: web.Request) -> None:
        """Pass a request on, and reset the connection of the client instead of an answer."""
        assert self._session is not None
        assert request.transport is not None
        body, url = await request.read(), self.upstream + request.path_qs
        async with self._session.request(
            request.method, url, data=body or None, headers=_passed(request.headers)
        ) as reply:
            await reply.read()
        own = request.transport.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()

    def close_connections(self) -> None:
        """Abort all connections of clients, as a process does that ends."""
        assert self._server is not None
        for each in self._server.connections:
            if each.transport:
                each.transport.abort()

    def drop_streams(self) -> None:
        """Abort all watches, and all other responses that have begun."""
        for request in list(self._streaming.values()):
            if request.transport:
                request.transport.abort()


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that a proxy passes on."""
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_HEADERS}


@asynccontextmanager
async def fault_proxy(
    upstream: str, context: ssl.SSLContext, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FaultProxy]:
    """A running proxy; ``tls`` has its certificate, None for plain HTTP."""
    proxy = FaultProxy(upstream, context)
    proxy.watches_flow.set()
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        proxy._session = session
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        proxy._server = runner.server
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        proxy.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        try:
            yield proxy
        finally:
            for task in list(proxy._background):
                task.cancel()
            proxy.drop_streams()
            await runner.cleanup()


def status_answer(status: int, reason: str, message: str) -> web.Response:
    """An API error as kube-apiserver writes it."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": status,
    }
    return web.json_response(body, status=status)


def on_bind(answer: Fault, *, times: int = 1) -> Fault:
    """A fault for the next ``times`` bind POSTs."""
    left = times

    async def fault(request: web.Request) -> web.StreamResponse | None:
        nonlocal left
        if left and request.method == "POST" and request.path.endswith("/binding"):
            left -= 1
            return await answer(request)
        return None

    return fault
