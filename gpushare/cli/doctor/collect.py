"""Reads the snapshot from the API server. What may not be read becomes ``Unread``, never an error.

It only reads: the reviews of rights are questions that the API server answers and does not store.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import Bare, WireConfigMap, WireNode, WirePod, pod_of
from gpushare.cli.doctor.installation import Snapshot, Unread, is_sharing
from gpushare.cli.doctor.objects import ApiService, CheckedNode, Lease, Service, SystemPod, Workload
from gpushare.cli.doctor.rights import RIGHTS, Right
from gpushare.cli.explain.collect import cgpu_pods_of, node_of
from gpushare.contract import (
    AGENT_NAME,
    AGENT_OPS_PORT,
    EXPORTER_NAME,
    EXPORTER_PORT,
    EXTENDER_NAME,
    EXTENDER_OPS_PORT,
    SYSTEM_NAMESPACE,
)
from gpushare.errors import ApiError, ConfigError, InvalidRequest
from gpushare.model.objects import Node, Pod
from gpushare.monitoring.catalogue import DEVICE_PLUGIN, EXPORTER, EXTENDER, ISOLATION
from gpushare.monitoring.page import MetricSample, samples
from gpushare.overview.cluster import NODES, PODS, ApiSource, listed
from gpushare.overview.explain.objects import ExplainedPod
from gpushare.overview.unhealthy import unhealthy_by_node
from gpushare.scheduling.book import Book
from gpushare.scheduling.snapshot import books_of

T = TypeVar("T")
K = TypeVar("K")

_TIMEOUT_S: Final = 10.0
_CONCURRENCY: Final = 16
_MOST_PODS: Final = 100
_MOST_KUBELETS: Final = 20
"""Pages of metrics that are read. Those of a kubelet are large; ``--node`` reads those of any node."""
_OURS: Final = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}"
_OPS_PORTS: Final = {
    EXTENDER_NAME: EXTENDER_OPS_PORT,
    AGENT_NAME: AGENT_OPS_PORT,
    EXPORTER_NAME: EXPORTER_PORT,
}
_SERIES: Final = frozenset(map(str, (*EXTENDER, *DEVICE_PLUGIN, *EXPORTER, *ISOLATION)))
_CGROUP_SERIES: Final = "kubelet_cgroup_version"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_DENIED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class _Version(Struct, rename="camel"):
    git_version: str = ""


class _ReviewStatus(Struct):
    allowed: bool = False


class _KubeletConfig(Struct, rename="camel"):
    cpu_manager_policy: str = "none"


class _Configz(Struct):
    kubeletconfig: _KubeletConfig = msgspec.field(default_factory=_KubeletConfig)


class _Review(Struct):
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


def gather(source: ApiSource, node: str | None = None) -> Snapshot:
    """The snapshot of the cluster, or of one of its nodes.

    Raises ConfigError for an unknown node, ApiError if the API server does not answer at all.
    """
    return asyncio.run(_gather(source, node))


async def _gather(source: ApiSource, node: str | None) -> Snapshot:
    async with await source.client() as client:
        # Without an answer to this there is nothing to check.
        version = _version(await client.request("GET", "/version", timeout_s=_TIMEOUT_S))
        return await _Gatherer(client, node).snapshot(version)


def _version(body: bytes) -> str | Unread:
    try:
        return msgspec.json.decode(body, type=_Version).git_version
    except msgspec.DecodeError as error:
        return Unread(f"/version cannot be read: {error}")


class _Gatherer:
    """All reads of one snapshot; ``node`` limits nodes and what runs on them."""

    def __init__(self, client: KubeClient, node: str | None) -> None:
        self._client = client
        self._node = node
        self._gate = asyncio.Semaphore(_CONCURRENCY)

    async def snapshot(self, version: str | Unread) -> Snapshot:
        raw_nodes, raw_pods, system_pods, config_maps = await asyncio.gather(
            self._raw(NODES, "list nodes"),
            self._raw(PODS, "list pods"),
            self._list(f"{_OURS}/pods", SystemPod, "list pods in kube-system"),
            self._list(f"{_OURS}/configmaps", WireConfigMap, "list configmaps in kube-system"),
        )
        nodes = self._limited(_decoded(raw_nodes, CheckedNode))
        pods = _decoded(raw_pods, WirePod)
        names = [] if isinstance(nodes, Unread) else [node.metadata.name for node in nodes]
        pages, cgroups, cpu_managers, reviews, workloads = await asyncio.gather(
            self._by_key({pod.name: self._page(pod) for pod in self._asked(system_pods)}),
            self._by_key({name: self._cgroup(name) for name in _sharing(nodes)}),
            self._by_key({name: self._cpu_manager(name) for name in _sharing(nodes)}),
            self._by_key(
                {
                    (account, str(r)): self._review(account, r)
                    for account, rights in RIGHTS.items()
                    for r in rights
                }
            ),
            self._workloads(),
        )
        deployments, services, api_services, lease, policies = workloads
        return Snapshot(
            now_s=time.time(),
            version=version,
            nodes=nodes,
            books=_books(_seen(raw_nodes, system_pods, names), pods, config_maps),
            pods=_explained(pods, _decoded(raw_pods, ExplainedPod)),
            system_pods=system_pods,
            deployments=deployments,
            services=services,
            config_maps=config_maps,
            lease=lease,
            policies=policies,
            api_services=api_services,
            pages=pages,
            cgroups=cgroups,
            cpu_managers=cpu_managers,
            reviews=reviews,
        )

    def _limited(self, nodes: Sequence[CheckedNode] | Unread) -> Sequence[CheckedNode] | Unread:
        if self._node is None or isinstance(nodes, Unread):
            return nodes
        found = [each for each in nodes if each.metadata.name == self._node]
        if not found:
            raise ConfigError(f"there is no node {self._node}")
        return found

    def _asked(self, pods: Sequence[SystemPod] | Unread) -> Iterator[SystemPod]:
        """The pods whose metrics are read: all extenders, and of the others those of the first nodes."""
        for component in _OPS_PORTS:
            found = [] if isinstance(pods, Unread) else [pod for pod in pods if pod.component == component]
            if component == EXTENDER_NAME:
                yield from found
                continue
            here = [pod for pod in found if self._node in (None, pod.spec.node_name)]
            yield from sorted(here, key=lambda pod: pod.spec.node_name)[:_MOST_PODS]

    async def _workloads(
        self,
    ) -> tuple[
        Sequence[Workload] | Unread,
        Sequence[Service] | Unread,
        Sequence[ApiService] | Unread,
        Lease | Unread,
        frozenset[str] | Unread,
    ]:
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{EXTENDER_NAME}"
        deployments = f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/deployments"
        return await asyncio.gather(
            self._list(deployments, Workload, "list deployments"),
            self._list(f"{_OURS}/services", Service, "list services in kube-system"),
            self._list("/apis/apiregistration.k8s.io/v1/apiservices", ApiService, "list apiservices"),
            self._get(lease, Lease, "get leases in kube-system"),
            self._policies(),
        )

    async def _policies(self) -> frozenset[str] | Unread:
        """The names of admission policies that are bound."""
        names: list[frozenset[str]] = []
        for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
            found = await self._list(f"{_ADMISSION}/{kind}", Bare, f"list {kind}")
            if isinstance(found, Unread):
                return found
            names.append(frozenset(each.metadata.name for each in found))
        return names[0] & names[1]

    async def _by_key(self, jobs: Mapping[K, Awaitable[T]]) -> dict[K, T]:
        async def limited(job: Awaitable[T]) -> T:
            async with self._gate:
                return await job

        return dict(zip(jobs, await asyncio.gather(*map(limited, jobs.values())), strict=True))

    async def _page(self, pod: SystemPod) -> Sequence[MetricSample] | Unread:
        port = _OPS_PORTS[pod.component]
        path = f"{_OURS}/pods/{quote(pod.name, safe='')}:{port}/proxy/metrics"
        return await self._metrics(path, _SERIES, f"get pods/proxy in {SYSTEM_NAMESPACE}")

    async def _cgroup(self, node: str) -> int | Unread:
        path = f"{NODES}/{quote(node, safe='')}/proxy/metrics"
        found = await self._metrics(path, {_CGROUP_SERIES}, "get nodes/proxy")
        if isinstance(found, Unread):
            return found
        return next(
            (int(each.number) for each in found),
            Unread(f"the kubelet of {node} does not report its cgroup version"),
        )

    async def _cpu_manager(self, node: str) -> str | Unread:
        path = f"{NODES}/{quote(node, safe='')}/proxy/configz"
        found = await self._get(path, _Configz, "get nodes/proxy")
        return found if isinstance(found, Unread) else found.kubeletconfig.cpu_manager_policy

    async def _metrics(self, path: str, wanted: Iterable[str], right: str) -> Sequence[MetricSample] | Unread:
        body = await self._body(path, right)
        if isinstance(body, Unread):
            return body
        try:
            found = samples(body.decode(), frozenset(wanted))
            return [each for each in found if math.isfinite(each.number)]
        except (InvalidRequest, UnicodeDecodeError) as error:
            return Unread(f"{path}: {error}")

    async def _review(self, account: str, right: Right) -> bool | Unread:
        body = await self._answer(
            lambda: self._client.request("POST", _REVIEWS, timeout_s=_TIMEOUT_S, body=right.review(account)),
            "create subjectaccessreviews",
        )
        found = _one(body, _Review, _REVIEWS)
        return found if isinstance(found, Unread) else found.status.allowed

    async def _get(self, path: str, kind: type[T], right: str) -> T | Unread:
        return _one(await self._body(path, right), kind, path)

    async def _body(self, path: str, right: str) -> bytes | Unread:
        return await self._answer(lambda: self._client.request("GET", path, timeout_s=_TIMEOUT_S), right)

    async def _list(self, path: str, kind: type[T], right: str) -> Sequence[T] | Unread:
        return _decoded(await self._raw(path, right), kind)

    async def _raw(self, path: str, right: str) -> Sequence[msgspec.Raw] | Unread:
        return await self._answer(lambda: listed(self._client, path, {}), right)

    async def _answer(self, ask: Callable[[], Awaitable[T]], right: str) -> T | Unread:
        try:
            return await ask()
        except ApiError as error:
            denied = error.status in _DENIED
            return Unread(str(error), right if denied else "", absent=error.status == HTTPStatus.NOT_FOUND)


def _sharing(nodes: Sequence[CheckedNode] | Unread) -> list[str]:
    """The first nodes that share their GPUs."""
    found = [] if isinstance(nodes, Unread) else nodes
    return sorted(each.metadata.name for each in found if is_sharing(each))[:_MOST_KUBELETS]


def _one(body: bytes | Unread, kind: type[T], path: str) -> T | Unread:
    if isinstance(body, Unread):
        return body
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        return Unread(f"{path}: cannot be read: {error}")


def _decoded(raws: Sequence[msgspec.Raw] | Unread, kind: type[T]) -> Sequence[T] | Unread:
    if isinstance(raws, Unread):
        return raws
    try:
        return [msgspec.json.decode(raw, type=kind) for raw in raws]
    except msgspec.DecodeError as error:
        return Unread(f"an object of type {kind.__name__} cannot be read: {error}")


def _explained(
    pods: Sequence[WirePod] | Unread, details: Sequence[ExplainedPod] | Unread
) -> Sequence[tuple[Pod, ExplainedPod]] | Unread:
    """The pods that request units, with what explains them."""
    if isinstance(pods, Unread):
        return pods
    if isinstance(details, Unread):
        return details
    pairs = ((pod_of(wire), detail) for wire, detail in zip(pods, details, strict=True))
    return [(pod, detail) for pod, detail in pairs if pod is not None]


def _seen(
    raw_nodes: Sequence[msgspec.Raw] | Unread,
    system_pods: Sequence[SystemPod] | Unread,
    names: Sequence[str],
) -> Sequence[Node] | Unread:
    """The named nodes, as the extender sees them."""
    nodes = _decoded(raw_nodes, WireNode)
    if isinstance(nodes, Unread):
        return nodes
    cgpu_pods = cgpu_pods_of([] if isinstance(system_pods, Unread) else system_pods)
    wanted = set(names)
    return [node_of(each, cgpu_pods) for each in nodes if each.metadata.name in wanted]


def _books(
    nodes: Sequence[Node] | Unread,
    pods: Sequence[WirePod] | Unread,
    config_maps: Sequence[WireConfigMap] | Unread,
) -> Mapping[str, Book] | Unread:
    if isinstance(nodes, Unread):
        return nodes
    if isinstance(pods, Unread):
        return pods
    unhealthy = unhealthy_by_node([] if isinstance(config_maps, Unread) else config_maps)
    ours = [pod for wire in pods if (pod := pod_of(wire)) is not None]
    return books_of(nodes, ours, unhealthy)
