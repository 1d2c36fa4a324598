"""Nodes and pods from the API server: once, or after every change."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access, user_kubeconfig, user_namespace
from gpushare.adapters.kube.decoding import decode
from gpushare.adapters.kube.informer import Informer
from gpushare.adapters.kube.watch import Resource
from gpushare.adapters.kube.wire import Bare, ListPage, WireNode
from gpushare.errors import ApiError
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.demand import Malformed
from gpushare.overview.gpu_pods import PodRecord, read_node, read_pod

T = TypeVar("T")

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
RUNNING: Final = "status.phase!=Succeeded,status.phase!=Failed"
_TIMEOUT_S: Final = 30.0
_PAGE_SIZE: Final = 1000
_SETTLE_S: Final = 0.5
"""Changes come in bursts (a Deployment scales); one refresh per half second is enough."""

_PAGE: Final = msgspec.json.Decoder(ListPage[msgspec.Raw])
_decode_bare = msgspec.json.Decoder(Bare).decode


@dataclass(frozen=True, slots=True)
class ApiSource:
    """The kubeconfig and context flags, as the user set them."""

    kubeconfig: str | None = None
    context: str | None = None

    async def client(self) -> KubeClient:
        """A client of the cluster that kubectl would use. Raises ConfigError."""
        return KubeClient(await load_access(user_kubeconfig(self.kubeconfig), self.context))

    def namespace(self, name: str | None, *, everywhere: bool) -> str | None:
        """The namespace to show: the named one, else that of kubectl; None for all. Raises ConfigError."""
        if everywhere:
            return None
        return name or user_namespace(user_kubeconfig(self.kubeconfig), self.context)


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """One snapshot of the cluster; ``problems`` describe the objects that cannot be read."""

    nodes: tuple[WireNode, ...]
    pods: tuple[PodRecord, ...]
    problems: tuple[str, ...]


def show_cluster(
    show: Callable[[ClusterObjects], None],
    report: Callable[[str], None],
    *,
    source: ApiSource,
    node: str | None,
    watch: bool,
) -> None:
    """Show the cluster once, or now and after every change until interrupted.

    Raises ApiError and ConfigError; a watch raises them for the first list only.
    """
    asyncio.run(_show_cluster(show, report, source=source, node=node, watch=watch))


async def _show_cluster(
    show: Callable[[ClusterObjects], None],
    report: Callable[[str], None],
    *,
    source: ApiSource,
    node: str | None,
    watch: bool,
) -> None:
    async with await source.client() as client:
        # Once without the watch: an unknown node or a missing right is an error, not a reason to wait.
        show(await snapshot(client, node))
        if watch:
            await follow(client, show, report)


def where(namespace: str | None) -> str:
    """The namespace in words, with the way to the others."""
    return f"namespace {namespace} (-A: all namespaces)" if namespace else "any namespace"


def pods_path(namespace: str | None) -> str:
    """The list of the pods of a namespace, or of all."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods" if namespace else PODS


async def snapshot(client: KubeClient, name: str | None) -> ClusterObjects:
    """All nodes and their pods, or one node and its pods. Raises ApiError; 404 for an unknown node."""
    if name:
        path = f"{NODES}/{quote(name, safe='')}"
        nodes = [msgspec.Raw(await client.request("GET", path, timeout_s=_TIMEOUT_S))]
    else:
        nodes = await listed(client, NODES, {})
    bound = f"spec.nodeName={name}" if name else "spec.nodeName!="
    pods = await listed(client, PODS, {"fieldSelector": f"{bound},{RUNNING}"})
    return objects_of(map(read_node, nodes), map(read_pod, pods))


def objects_of(
    nodes: Iterable[WireNode | Malformed], pods: Iterable[PodRecord | Malformed | None]
) -> ClusterObjects:
    """Splits readable objects from the problems of the others."""
    items = [*nodes, *pods]
    return ClusterObjects(
        nodes=tuple(item for item in items if isinstance(item, WireNode)),
        pods=tuple(item for item in items if isinstance(item, PodRecord)),
        problems=tuple(item.problem for item in items if isinstance(item, Malformed)),
    )


async def listed(client: KubeClient, path: str, query: dict[str, str]) -> list[msgspec.Raw]:
    """All objects of a list, page by page. Raises ApiError."""
    items: list[msgspec.Raw] = []
    token = ""
    while True:
        paging = {"limit": str(_PAGE_SIZE)} | ({"continue": token} if token else {})
        body = await client.request("GET", path, timeout_s=_TIMEOUT_S, query=query | paging)
        try:
            page = decode(_PAGE, body)
        except msgspec.DecodeError as error:
            raise ApiError(f"{path}: list cannot be read: {error}", reason="Unreadable") from error
        items += page.items or ()
        token = page.metadata.continue_
        if not token:
            return items


class ReportingInformer(Informer[T]):
    """Requests a refresh after changes, and reports problems to the user instead of a log."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        changes: asyncio.Event,
        report: Callable[[str], None],
    ) -> None:
        super().__init__(client, resource)
        self._changes = changes
        self._report = report

    def changed(self, batch: Iterable[Upserted[T] | Deleted]) -> None:
        """Apply the changes, and request a refresh."""
        super().changed(batch)
        self._changes.set()

    def synced(self, resource: str) -> None:
        """Mark the resource as listed."""
        del resource
        self.listed.set()

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        """Report every failure."""
        self._report(f"watch of {resource}: {error}; next attempt in {retry_in_s:.0f} s")


async def follow(
    client: KubeClient, show: Callable[[ClusterObjects], None], report: Callable[[str], None]
) -> None:
    """Show the cluster now and after every change, until cancelled or until ``show`` raises."""
    changes = asyncio.Event()
    nodes = ReportingInformer[WireNode | Malformed](
        client, resource("nodes", NODES, read_node), changes, report
    )
    pods = ReportingInformer[PodRecord | Malformed](client, resource("pods", PODS, read_pod), changes, report)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(nodes.run())
            tasks.create_task(pods.run())
            await _show_changes(nodes, pods, changes, show)
    except ExceptionGroup as group:
        raise group.exceptions[0] from group


async def _show_changes(
    nodes: ReportingInformer[WireNode | Malformed],
    pods: ReportingInformer[PodRecord | Malformed],
    changes: asyncio.Event,
    show: Callable[[ClusterObjects], None],
) -> None:
    await nodes.listed.wait()
    await pods.listed.wait()
    while True:
        changes.clear()
        show(objects_of(nodes.objects.values(), pods.objects.values()))
        await changes.wait()
        await asyncio.sleep(_SETTLE_S)


def resource(
    name: str, path: str, read: Callable[[msgspec.Raw], T | None], query: Mapping[str, str] | None = None
) -> Resource[T]:
    """A collection of objects that ``read`` turns into values, by namespace and name."""

    def keyed(raw: msgspec.Raw) -> tuple[str, T] | None:
        value = read(raw)
        try:
            meta = _decode_bare(raw).metadata
        except msgspec.DecodeError:
            return None  # the first snapshot has reported it
        return None if value is None else (f"{meta.namespace}/{meta.name}", value)

    return Resource(name, path, msgspec.Raw, keyed, query or {})
