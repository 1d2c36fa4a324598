"""A FAKE of the API server on loopback: scripted answers to GET requests of one path."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.client import KubeClient

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Served:
    """Requests and scripted answers. Without a script a request waits for the end."""

    client: KubeClient = field(init=False)
    script: deque[Answer] = field(default_factory=deque)
    asked: list[Mapping[str, str]] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        if self.script:
            return await self.script.popleft()(request)
        await self.ended.wait()
        return web.Response()

    def stream(self, *chunks: bytes, stay: bool = True) -> Answer:
        """The chunks, each in a separate write; then silence, or the end."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for chunk in chunks:
                await response.write(chunk)
                await asyncio.sleep(0.005)  # so that the client reads them apart
            if stay:
                await self.ended.wait()
            return response

        return answer


def fixed(status: int, text: str | bytes = b"", **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        raw = text.encode() if isinstance(text, str) else text
        return web.Response(
            status=status, body=raw, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    return answer


def page(*items: dict[str, Any], version: str, then: str = "") -> Answer:
    meta = {"resourceVersion": version, "continue": then}
    return fixed(200, json.dumps({"metadata": meta, "items": list(items)}))


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    served = Served()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", served.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        async with KubeClient(ApiAccess(host=f"http://{host}:{port}")) as served.client:
            yield served
            served.ended.set()
    finally:
        await runner.cleanup()
