"""Pods by name, and their limits from the exporters of their nodes, read through the API server."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import WireNode, WirePod, pod_of
from gpushare.errors import ApiError, ConfigError, SourceError
from gpushare.overview.cluster import NODES, ApiSource, listed, pods_path, where
from gpushare.overview.exporters import read_series
from gpushare.overview.limits import ContainerLimit, NamedPod, container_limits, why_not
from gpushare.overview.usage import UsageFilter

_TIMEOUT_S: Final = 10.0
_NO_SERIES: Final = (
    "the exporter of node {node} reports no limit: its containers have not started yet, or started before "
    "isolation was installed on the node, or the node agent runs without isolation"
)

_decode_pod = msgspec.json.Decoder(WirePod).decode
_decode_node = msgspec.json.Decoder(WireNode).decode


@dataclass(frozen=True, slots=True)
class LimitsResult:
    """Containers with limits, and for each requested pod without limits one sentence with the reason."""

    container_limits: Sequence[ContainerLimit]
    unlimited: Sequence[str] = ()


def find(source: ApiSource, usage_filter: UsageFilter, report: Callable[[str], None]) -> LimitsResult:
    """The limits of the selected containers.

    Raises ConfigError for an unknown pod or without an exporter, SourceError if none answers, ApiError.
    """
    return asyncio.run(_find(source, usage_filter, report))


async def _find(source: ApiSource, usage_filter: UsageFilter, report: Callable[[str], None]) -> LimitsResult:
    async with await source.client() as client:
        if usage_filter.pod is None:
            return LimitsResult(
                container_limits(await read_series(client, usage_filter.node, report), usage_filter)
            )
        return await _of_pods(client, await _named(client, usage_filter), usage_filter, report)


async def _of_pods(
    client: KubeClient, pods: Sequence[NamedPod], usage_filter: UsageFilter, report: Callable[[str], None]
) -> LimitsResult:
    found: list[ContainerLimit] = []
    unanswered: ConfigError | SourceError | None = None
    for node in sorted({pod.node for pod in pods if pod.node}):
        try:
            found += container_limits(await read_series(client, node, report), usage_filter)
        except (ConfigError, SourceError) as error:
            unanswered = error
    limited = {(each.namespace, each.pod) for each in found}
    unlimited = []
    for pod in pods:
        if (pod.namespace, pod.name) not in limited:
            reason = why_not(pod, await _labels(client, pod.node) if pod.node else None)
            if reason is None and unanswered:
                raise unanswered
            unlimited.append(
                f"pod {pod.full_name} has no limits: {reason or _NO_SERIES.format(node=pod.node)}"
            )
    return LimitsResult(found, unlimited)


async def _named(client: KubeClient, usage_filter: UsageFilter) -> list[NamedPod]:
    """The pods of that name. Raises ConfigError if there is none."""
    path = pods_path(usage_filter.namespace)
    query = {"fieldSelector": f"metadata.name={usage_filter.pod}"}
    pods = [_pod(raw, path) for raw in await listed(client, path, query)]
    found = [pod for pod in pods if usage_filter.node in (None, pod.node)]
    if not found:
        on = f" on node {usage_filter.node}" if usage_filter.node else ""
        raise ConfigError(f"there is no pod {usage_filter.pod} in {where(usage_filter.namespace)}{on}")
    return found


def _pod(raw: msgspec.Raw, path: str) -> NamedPod:
    try:
        wire = _decode_pod(raw)
    except msgspec.DecodeError as error:
        raise ApiError(f"{path}: a pod cannot be read: {error}", reason="Unreadable") from error
    meta, pod = wire.metadata, pod_of(wire)
    finished = bool(pod and pod.finished)
    return NamedPod(meta.namespace, meta.name, wire.spec.node_name or "", pod is not None, finished)


async def _labels(client: KubeClient, node: str) -> dict[str, str]:
    path = f"{NODES}/{quote(node, safe='')}"
    try:
        return _decode_node(await client.request("GET", path, timeout_s=_TIMEOUT_S)).metadata.labels or {}
    except msgspec.DecodeError as error:
        raise ApiError(f"{path}: the node cannot be read: {error}", reason="Unreadable") from error
