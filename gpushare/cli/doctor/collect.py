"""Reads the installation from the API server. What may not be read becomes ``Unread``, never an error.

It only reads: the reviews of rights are questions that the API server answers and does not store.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import Bare, WireConfigMap, pod_of
from gpushare.cli.doctor.installation import (
    ApiService,
    Installation,
    NotReadError,
    Service,
    Unread,
    Workload,
    if_read,
    is_sharing,
    required,
)
from gpushare.cli.doctor.rights import RIGHTS, Right
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
from gpushare.model.objects import Pod
from gpushare.monitoring.catalogue import DEVICE_PLUGIN, EXPORTER, EXTENDER, ISOLATION
from gpushare.monitoring.page import MetricSample, samples
from gpushare.overview.ledger_inputs import cgpu_pods_of, node_of, unhealthy_by_node
from gpushare.overview.lists import NODES, PODS, listed, node_path
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.overview.system_pods import Lease, SystemPod
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
_DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/deployments"
_LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{EXTENDER_NAME}"
_API_SERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_OPS_PORTS: Final = {
    EXTENDER_NAME: EXTENDER_OPS_PORT,
    AGENT_NAME: AGENT_OPS_PORT,
    EXPORTER_NAME: EXPORTER_PORT,
}
_SERIES: Final = frozenset(map(str, (*EXTENDER, *DEVICE_PLUGIN, *EXPORTER, *ISOLATION)))
_CGROUP_SERIES: Final = frozenset({"kubelet_cgroup_version"})
_DENIED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class _Version(Struct, rename="camel"):
    git_version: str = ""


class _ReviewStatus(Struct):
    allowed: bool = False


class _Review(Struct):
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


class _KubeletConfig(Struct, rename="camel"):
    cpu_manager_policy: str = "none"


class _Configz(Struct):
    kubeletconfig: _KubeletConfig = msgspec.field(default_factory=_KubeletConfig)


async def collect(client: KubeClient, node: str | None = None) -> Installation:
    """The installation of the cluster, or of one of its nodes.

    Raises ConfigError for an unknown node, ApiError if the API server does not answer at all.
    """
    # Without an answer to this there is nothing to check.
    body = await client.request("GET", "/version", timeout_s=_TIMEOUT_S)
    version = _if_read(lambda: _decoded(body, _Version, "/version").git_version)
    return await _Reader(client, node).installation(version)


def _if_read(make: Callable[[], T]) -> T | Unread:
    """What is made of things that were read; else the reason of the first that was not."""
    try:
        return make()
    except NotReadError as error:
        return error.found


async def _if_answered(answer: Awaitable[T]) -> T | Unread:
    """The answer; else the reason why there is none."""
    try:
        return await answer
    except NotReadError as error:
        return error.found


class _Reader:
    """All reads of one installation; ``node`` limits nodes and what runs on them.

    Its methods raise NotReadError; ``installation`` keeps the reasons.
    """

    def __init__(self, client: KubeClient, node: str | None) -> None:
        self._client = client
        self._node = node
        self._gate = asyncio.Semaphore(_CONCURRENCY)

    async def installation(self, version: str | Unread) -> Installation:
        nodes, pods, system_pods, config_maps = await asyncio.gather(
            _if_answered(self._nodes()),
            _if_answered(self._list(PODS, ClusterPod, "list pods")),
            _if_answered(self._list(f"{_OURS}/pods", SystemPod, "list pods in kube-system")),
            _if_answered(self._list(f"{_OURS}/configmaps", WireConfigMap, "list configmaps in kube-system")),
        )
        asked = sorted(each.name for each in if_read(nodes) if is_sharing(each))[:_MOST_KUBELETS]
        ours = _if_read(lambda: [(pod, each) for each in required(pods) if (pod := pod_of(each))])
        services, pages, cgroups, cpu_managers, reviews = await asyncio.gather(
            self._services(),
            self._by_key({pod.name: self._page(pod) for pod in self._asked(if_read(system_pods))}),
            self._by_key({name: self._cgroup(name) for name in asked}),
            self._by_key({name: self._cpu_manager(name) for name in asked}),
            self._by_key(
                {(who, str(right)): self._review(who, right) for who, own in RIGHTS.items() for right in own}
            ),
        )
        return Installation(
            now_s=time.time(),
            version=version,
            nodes=nodes,
            books=_if_read(lambda: _books(required(nodes), required(ours), system_pods, config_maps)),
            pods=ours,
            system_pods=system_pods,
            config_maps=config_maps,
            deployments=services[0],
            services=services[1],
            api_services=services[2],
            lease=services[3],
            policies=services[4],
            pages=pages,
            cgroups=cgroups,
            cpu_managers=cpu_managers,
            reviews=reviews,
        )

    async def _services(
        self,
    ) -> tuple[
        Sequence[Workload] | Unread,
        Sequence[Service] | Unread,
        Sequence[ApiService] | Unread,
        Lease | Unread,
        frozenset[str] | Unread,
    ]:
        return await asyncio.gather(
            _if_answered(self._list(_DEPLOYMENTS, Workload, "list deployments")),
            _if_answered(self._list(f"{_OURS}/services", Service, "list services in kube-system")),
            _if_answered(self._list(_API_SERVICES, ApiService, "list apiservices")),
            _if_answered(self._get(_LEASE, Lease, "get leases in kube-system")),
            _if_answered(self._policies()),
        )

    async def _nodes(self) -> Sequence[ClusterNode]:
        nodes = await self._list(NODES, ClusterNode, "list nodes")
        found = [each for each in nodes if self._node in (None, each.name)]
        if self._node and not found:
            raise ConfigError(f"there is no node {self._node}")
        return found

    def _asked(self, pods: Sequence[SystemPod]) -> Iterator[SystemPod]:
        """The pods whose metrics are read: all extenders, and of the others those of the first nodes."""
        yield from (pod for pod in pods if pod.component == EXTENDER_NAME)
        here = [pod for pod in pods if self._node in (None, pod.spec.node_name)]
        for component in (AGENT_NAME, EXPORTER_NAME):
            own = (pod for pod in here if pod.component == component)
            yield from sorted(own, key=lambda pod: pod.spec.node_name)[:_MOST_PODS]

    async def _policies(self) -> frozenset[str]:
        """The names of admission policies that are bound."""
        policies, bindings = [
            frozenset(
                each.metadata.name for each in await self._list(f"{_ADMISSION}/{kind}", Bare, f"list {kind}")
            )
            for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
        ]
        return policies & bindings

    async def _by_key(self, jobs: Mapping[K, Awaitable[T]]) -> dict[K, T | Unread]:
        async def limited(job: Awaitable[T]) -> T | Unread:
            async with self._gate:
                return await _if_answered(job)

        return dict(zip(jobs, await asyncio.gather(*map(limited, jobs.values())), strict=True))

    async def _page(self, pod: SystemPod) -> Sequence[MetricSample]:
        port = _OPS_PORTS[pod.component]
        path = f"{_OURS}/pods/{quote(pod.name, safe='')}:{port}/proxy/metrics"
        return await self._metrics(path, _SERIES, f"get pods/proxy in {SYSTEM_NAMESPACE}")

    async def _cgroup(self, node: str) -> int:
        found = await self._metrics(f"{node_path(node)}/proxy/metrics", _CGROUP_SERIES, "get nodes/proxy")
        if not found:
            raise NotReadError(Unread(f"the kubelet of {node} does not report its cgroup version"))
        return int(found[0].number)

    async def _cpu_manager(self, node: str) -> str:
        found = await self._get(f"{node_path(node)}/proxy/configz", _Configz, "get nodes/proxy")
        return found.kubeletconfig.cpu_manager_policy

    async def _metrics(self, path: str, wanted: frozenset[str], right: str) -> Sequence[MetricSample]:
        body = await self._body(path, right)
        try:
            return [each for each in samples(body.decode(), wanted) if math.isfinite(each.number)]
        except (InvalidRequest, UnicodeDecodeError) as error:
            raise NotReadError(Unread(f"{path}: {error}")) from error

    async def _review(self, account: str, right: Right) -> bool:
        question = self._client.request("POST", _REVIEWS, timeout_s=_TIMEOUT_S, body=right.review(account))
        body = await _answer(question, "create subjectaccessreviews")
        return _decoded(body, _Review, _REVIEWS).status.allowed

    async def _get(self, path: str, kind: type[T], right: str) -> T:
        return _decoded(await self._body(path, right), kind, path)

    async def _body(self, path: str, right: str) -> bytes:
        return await _answer(self._client.request("GET", path, timeout_s=_TIMEOUT_S), right)

    async def _list(self, path: str, kind: type[T], right: str) -> Sequence[T]:
        raws = await _answer(listed(self._client, path), right)
        try:
            return [msgspec.json.decode(raw, type=kind) for raw in raws]
        except msgspec.DecodeError as error:
            problem = f"an object of type {kind.__name__} cannot be read: {error}"
            raise NotReadError(Unread(problem)) from error


async def _answer(answer: Awaitable[T], right: str) -> T:
    try:
        return await answer
    except ApiError as error:
        denied = error.status in _DENIED
        absent = error.status == HTTPStatus.NOT_FOUND
        raise NotReadError(Unread(str(error), right if denied else "", absent=absent)) from error


def _decoded(body: bytes, kind: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise NotReadError(Unread(f"{path}: cannot be read: {error}")) from error


def _books(
    nodes: Sequence[ClusterNode],
    pods: Sequence[tuple[Pod, ClusterPod]],
    system_pods: Sequence[SystemPod] | Unread,
    config_maps: Sequence[WireConfigMap] | Unread,
) -> Mapping[str, Book]:
    """The ledger of these nodes, as the extender sees them."""
    cgpu_pods = cgpu_pods_of(if_read(system_pods))
    unhealthy = unhealthy_by_node(if_read(config_maps))
    return books_of([node_of(each, cgpu_pods) for each in nodes], [pod for pod, _ in pods], unhealthy)
