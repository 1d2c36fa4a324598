"""Pods by name, and what the exporters of their nodes say of their limits, read through the API server."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.adapters.kube.wire import WireNode, WirePod, pod_of
from gpushare.cli.cluster import ApiSource, listed
from gpushare.cli.exporters import told
from gpushare.cli.limits_view import ContainerLimit, NamedPod, container_limits, why_not
from gpushare.cli.usage_tables import UsageFilter
from gpushare.errors import ApiError, ConfigError, SourceError

_TIMEOUT_S: Final = 10.0
_UNTOLD: Final = (
    "the exporter of node {node} knows of no limit: its containers have not started yet, or did before "
    "isolation came to the node, or the node agent runs without isolation"
)

_decode_pod = msgspec.json.Decoder(WirePod).decode
_decode_node = msgspec.json.Decoder(WireNode).decode


@dataclass(frozen=True, slots=True)
class Found:
    """Containers that are held, and why the pods that were asked for and have none are not."""

    container_limits: Sequence[ContainerLimit]
    not_held: Sequence[str] = ()


def find(source: ApiSource, wanted: UsageFilter, report: Callable[[str], None]) -> Found:
    """What is held of what is wanted.

    Raises ConfigError for a pod that is not there, and where no exporter can say; ApiError; SourceError.
    """
    return asyncio.run(_find(source, wanted, report))


async def _find(source: ApiSource, wanted: UsageFilter, report: Callable[[str], None]) -> Found:
    async with KubeClient(await load_access(source.path(), source.context)) as client:
        if wanted.pod is None:
            return Found(container_limits(await told(client, wanted.node, report), wanted))
        return await _of_pods(client, await _named(client, wanted), wanted, report)


async def _of_pods(
    client: KubeClient, pods: Sequence[NamedPod], wanted: UsageFilter, report: Callable[[str], None]
) -> Found:
    found: list[ContainerLimit] = []
    silent: ConfigError | SourceError | None = None
    for node in sorted({pod.node for pod in pods if pod.node}):
        try:
            found += container_limits(await told(client, node, report), wanted)
        except (ConfigError, SourceError) as error:
            silent = error
    held = {(hold.namespace, hold.pod) for hold in found}
    not_held = []
    for pod in pods:
        if (pod.namespace, pod.name) not in held:
            reason = why_not(pod, await _labels(client, pod.node) if pod.node else None)
            if reason is None and silent:
                raise silent
            not_held.append(f"pod {pod.full_name} is not held: {reason or _UNTOLD.format(node=pod.node)}")
    return Found(found, not_held)


async def _named(client: KubeClient, wanted: UsageFilter) -> list[NamedPod]:
    """The pods of that name. Raises ConfigError where there is none."""
    within = f"/namespaces/{quote(wanted.namespace, safe='')}" if wanted.namespace else ""
    path = f"/api/v1{within}/pods"
    query = {"fieldSelector": f"metadata.name={wanted.pod}"}
    pods = [_pod(raw, path) for raw in await listed(client, path, query)]
    found = [pod for pod in pods if wanted.node in (None, pod.node)]
    if not found:
        where = f"namespace {wanted.namespace}" if wanted.namespace else "any namespace"
        on = f" on node {wanted.node}" if wanted.node else ""
        raise ConfigError(f"there is no pod {wanted.pod} in {where}{on}")
    return found


def _pod(raw: msgspec.Raw, path: str) -> NamedPod:
    try:
        wire = _decode_pod(raw)
    except msgspec.DecodeError as error:
        raise ApiError(f"{path}: a pod cannot be read: {error}", reason="Unreadable") from error
    meta, asked = wire.metadata, pod_of(wire)
    finished = bool(asked and asked.finished)
    return NamedPod(meta.namespace, meta.name, wire.spec.node_name or "", asked is not None, finished)


async def _labels(client: KubeClient, node: str) -> dict[str, str]:
    path = f"/api/v1/nodes/{quote(node, safe='')}"
    try:
        return _decode_node(await client.request("GET", path, timeout_s=_TIMEOUT_S)).metadata.labels or {}
    except msgspec.DecodeError as error:
        raise ApiError(f"{path}: the node cannot be read: {error}", reason="Unreadable") from error
