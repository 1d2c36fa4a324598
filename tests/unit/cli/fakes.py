"""A FAKE of the API server with lists of nodes and pods, and of exporters, on loopback."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from gpushare.__main__ import command
from gpushare.runtime.program import run
from tests.support.builders.api_objects import Json

EXPORTERS = "/api/v1/namespaces/kube-system/pods"


class Api:
    """Lists, single nodes, and watches that return the entries of ``news``."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.pods: list[Any] = []
        self.page_size = 100
        self.garbage = False
        self.queries: list[dict[str, str]] = []
        self.news: asyncio.Queue[Json] = asyncio.Queue()
        self.node_news: asyncio.Queue[Json] = asyncio.Queue()
        self.url = ""
        self.kubeconfig = ""
        self.exporters: dict[str, str | None] = {}
        self.config_maps: list[Json] = []
        self.system_pods: list[Json] = []
        self.events: list[Json] = []
        self.forbidden: set[str] = set()
        self.usage: dict[str, Json] | None = None
        self.budgets: list[Json] = []
        self.evicted: list[str] = []
        self.nominated: list[tuple[str, str | None]] = []
        self.on_eviction: Callable[[str], int] = lambda _: 201
        """Called with the name of a pod to evict; returns the status of the answer."""
        self.impersonated: list[tuple[str, list[str]]] = []

    def application(self) -> web.Application:
        application = web.Application()
        application.middlewares.append(self._authorize)
        application.router.add_get("/api/v1/nodes", self._nodes)
        application.router.add_get("/api/v1/namespaces/kube-system/configmaps", self._config_maps)
        application.router.add_get("/api/v1/nodes/{name}", self._node)
        application.router.add_get("/api/v1/events", self._events)
        application.router.add_get("/api/v1/pods", self._pods)
        application.router.add_get(EXPORTERS, self._exporters)
        application.router.add_get("/api/v1/namespaces/{namespace}/pods", self._pods)
        application.router.add_get(f"{EXPORTERS}/{{name}}:12348/proxy/metrics", self._page)
        application.router.add_get("/api/v1/namespaces/{namespace}/events", self._events)
        application.router.add_get("/apis/policy/v1/poddisruptionbudgets", self._budgets)
        application.router.add_post("/api/v1/namespaces/{namespace}/pods/{name}/eviction", self._evict)
        application.router.add_patch("/api/v1/namespaces/{namespace}/pods/{name}/status", self._nominate)
        application.router.add_get("/apis/usage.gpushare.io/v1/{path:.*}", self._usage)
        return application

    @web.middleware
    async def _authorize(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if user := request.headers.get("Impersonate-User"):
            self.impersonated.append((user, request.headers.getall("Impersonate-Group", [])))
        if request.path in self.forbidden:
            return _forbidden(request.path)
        return await handler(request)

    def allow_only(self, namespace: str) -> None:
        """Leaves the rights of ClusterRole edit in one namespace."""
        system = (EXPORTERS, "/api/v1/namespaces/kube-system/configmaps")
        self.forbidden = {"/api/v1/nodes", "/api/v1/pods", *system, f"{EXPORTERS}/e-n:12348/proxy/metrics"}
        self.forbidden |= {f"/api/v1/nodes/{each['metadata']['name']}" for each in self.nodes}
        self.forbidden -= {f"/api/v1/namespaces/{namespace}/pods"}

    async def _usage(self, request: web.Request) -> web.Response:
        """None stands for a cluster without the API, whose role gives nobody a right."""
        if self.usage is None:
            return _forbidden(request.path)
        path = request.path.removeprefix("/apis/usage.gpushare.io/v1/namespaces/")
        if path in self.usage:
            return web.json_response(self.usage[path])
        refusal = {"message": f'gpupods "{path.split("/")[2]}" not found', "reason": "NotFound"}
        return web.json_response(refusal, status=404)

    async def _budgets(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, self.budgets, self.news)

    async def _evict(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        asked = await request.json()
        uids = [each["metadata"]["uid"] for each in self.pods if each["metadata"]["name"] == name]
        if uids != [asked["deleteOptions"]["preconditions"]["uid"]]:
            return web.json_response({"message": "Precondition failed: UID"}, status=409)
        status = self.on_eviction(name)
        if status != HTTPStatus.CREATED:
            return web.json_response({"message": "Cannot evict pod"}, status=status)
        self.evicted.append(name)
        return web.json_response({"status": "Success"}, status=status)

    async def _nominate(self, request: web.Request) -> web.Response:
        node = (await request.json())["status"]["nominatedNodeName"]
        self.nominated.append((request.match_info["name"], node))
        return web.json_response({})

    async def _config_maps(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, self.config_maps, self.news)

    async def _events(self, request: web.Request) -> web.Response:
        """Of one object, if the request names its UID."""
        _, _, uid = request.query.get("fieldSelector", "").partition("involvedObject.uid=")
        items = [each for each in self.events if uid in ("", each["involvedObject"].get("uid"))]
        return web.json_response({"items": items})

    async def _nodes(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, self.nodes, self.node_news)

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        wanted = {"namespace": request.match_info.get("namespace")}
        for term in request.query.get("fieldSelector", "").split(","):
            if term.startswith("metadata.name="):
                wanted["name"] = term.partition("=")[2]
        pods = [each for each in self.pods if _has(each, wanted)]
        return await self._serve(request, pods, self.news)

    async def _exporters(self, request: web.Request) -> web.Response:
        self.queries.append(dict(request.query))
        if "fieldSelector" not in request.query:
            return web.json_response({"items": self.system_pods})
        _, _, only = request.query["fieldSelector"].partition("spec.nodeName=")
        nodes = [node for node in self.exporters if only in ("", node)]
        items = [{"metadata": {"name": f"e-{node}"}, "spec": {"nodeName": node}} for node in nodes]
        return web.json_response({"items": items})

    async def _page(self, request: web.Request) -> web.Response:
        """None stands for an exporter that the API server cannot reach."""
        page = self.exporters[request.match_info["name"].removeprefix("e-")]
        if page is None:
            return web.json_response({"message": "error trying to reach service"}, status=503)
        return web.Response(text=page)

    async def _serve(
        self, request: web.Request, items: list[Any], news: asyncio.Queue[Json]
    ) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        if "watch" in request.query:
            return await self._watch(request, news)
        if self.garbage:
            return web.json_response({"items": 7})
        start = int(request.query.get("continue", "0"))
        end = start + self.page_size
        token = str(end) if end < len(items) else ""
        return web.json_response(
            {"items": items[start:end], "metadata": {"resourceVersion": "1", "continue": token}}
        )

    async def _watch(self, request: web.Request, news: asyncio.Queue[Json]) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(json.dumps(await news.get()).encode() + b"\n")

    async def _node(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        for item in self.nodes:
            if item["metadata"]["name"] == name:
                return web.json_response(item)
        refusal = {"message": f'nodes "{name}" not found', "reason": "NotFound", "code": 404}
        return web.json_response(refusal, status=404)


def _forbidden(path: str) -> web.Response:
    """As kube-apiserver refuses a list (apiserver/pkg/endpoints/handlers/responsewriters, v1.36)."""
    *_, before, namespace, resource = ["", *path.split("/")]
    scope = f'in the namespace "{namespace}"' if before == "namespaces" else "at the cluster scope"
    message = f'{resource} is forbidden: User "ann" cannot list resource "{resource}" in API group "" {scope}'
    return web.json_response({"message": message, "reason": "Forbidden", "code": 403}, status=403)


def _has(pod: Json, wanted: dict[str, str | None]) -> bool:
    return all(value is None or pod["metadata"][key] == value for key, value in wanted.items())


@asynccontextmanager
async def served(application: web.Application) -> AsyncIterator[str]:
    """The URL of a server on loopback."""
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def kubeconfig(folder: Path, server: str, **context: str) -> str:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **context}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return str(path)


async def call(api: Api, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a program that ends by itself."""
    return await asyncio.to_thread(_call, [*arguments, "--kubeconfig", api.kubeconfig])


async def shown(api: Api, *arguments: str) -> str:
    """The output of a program that succeeds and says nothing on stderr."""
    code, out, err = await call(api, *arguments)
    assert (code, err) == (0, "")
    return out


async def documented(api: Api, *arguments: str) -> Any:
    """The document on stdout of such a program."""
    return json.loads(await shown(api, *arguments))


async def refused(api: Api, *arguments: str, code: int = 1) -> str:
    """The message on stderr of a program that fails, and shows nothing."""
    found, out, err = await call(api, *arguments)
    assert (found, out) == (code, "")
    return err


def _call(arguments: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
        run(command, arguments)
    assert isinstance(end.value.code, int)
    return end.value.code, out.getvalue(), err.getvalue()
