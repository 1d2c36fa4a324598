"""Reads what explains a pod from the API server: the pod, all nodes and pods, and unhealthy GPUs."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import WireConfigMap, WireNode, WirePod, any_pod_of, core_node, pod_of
from gpushare.cli.doctor.objects import SystemPod
from gpushare.contract import EXTENDER_NAME, SYSTEM_NAMESPACE
from gpushare.errors import ApiError, ConfigError
from gpushare.model.modes import CGPU_PODS, Mode
from gpushare.model.objects import Node
from gpushare.overview.cluster import NODES, PODS, RUNNING, ApiSource, listed, pods_path, where
from gpushare.overview.explain.objects import ExplainedNode, ExplainedPod, Facts
from gpushare.overview.unhealthy import unhealthy_by_node, unreadable_by_node
from gpushare.scheduling.snapshot import books_of

T = TypeVar("T")

_CONFIG_MAPS: Final = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps"
_SYSTEM_PODS: Final = pods_path(SYSTEM_NAMESPACE)
_CGPU_FLAG: Final = "cgpu-pods-per-card"
_DENIED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def read_facts(source: ApiSource, name: str, namespace: str | None) -> Facts:
    """Raises ConfigError if there is no such pod, or several; ApiError."""
    return asyncio.run(_read(source, name, namespace))


async def _read(source: ApiSource, name: str, namespace: str | None) -> Facts:
    async with await source.client() as client:
        raw = await _named(client, name, namespace)
        details = _decoded(raw, ExplainedPod)
        pod = any_pod_of(_decoded(raw, WirePod))
        if not pod.managed or pod.gated:
            return Facts(pod, details)
        return await _with_cluster(client, Facts(pod, details))


async def _named(client: KubeClient, name: str, namespace: str | None) -> msgspec.Raw:
    """The pod of that name."""
    found = await listed(client, pods_path(namespace), {"fieldSelector": f"metadata.name={name}"})
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigError(f"there is no pod {name} in {where(namespace)}")
    names = sorted(_decoded(raw, ExplainedPod).metadata.namespace for raw in found)
    raise ConfigError(f"there are pods {name} in the namespaces {', '.join(names)}; choose one with -n")


async def _with_cluster(client: KubeClient, facts: Facts) -> Facts:
    notes: list[str] = []
    raw_nodes, raw_pods, unhealthy, cgpu_pods = await asyncio.gather(
        _allowed(client, NODES, {}, notes, "nodes"),
        _allowed(client, PODS, {"fieldSelector": RUNNING}, notes, "pods of all namespaces"),
        read_unhealthy(client, notes),
        read_cgpu_pods(client),
    )
    if raw_nodes is None or raw_pods is None:
        return replace(facts, books=None, notes=tuple(notes))
    nodes = [node_of(_decoded(raw, WireNode), cgpu_pods) for raw in raw_nodes]
    pods = [pod for raw in raw_pods if (pod := pod_of(_decoded(raw, WirePod))) is not None]
    details = {each.metadata.name: each for each in (_decoded(raw, ExplainedNode) for raw in raw_nodes)}
    return replace(facts, books=books_of(nodes, pods, unhealthy), nodes=details, notes=tuple(notes))


async def _allowed(
    client: KubeClient, path: str, query: dict[str, str], notes: list[str], what: str
) -> list[msgspec.Raw] | None:
    """The list; None without the right to it."""
    try:
        return await listed(client, path, query)
    except ApiError as error:
        if error.status not in _DENIED:
            raise
        notes.append(f"this account may not list {what}: {error}")
        return None


async def read_unhealthy(client: KubeClient, notes: list[str]) -> dict[str, frozenset[int]]:
    """The indices of unhealthy GPUs by node. Raises ApiError.

    A missing right, and entries that name no GPU, are added to ``notes``.
    """
    raw = await _allowed(client, _CONFIG_MAPS, {}, notes, f"ConfigMaps in {SYSTEM_NAMESPACE}")
    config_maps = [_decoded(each, WireConfigMap) for each in raw or ()]
    notes += unreadable_by_node(config_maps).values()
    return unhealthy_by_node(config_maps)


async def read_cgpu_pods(client: KubeClient) -> int:
    """As ``cgpu_pods_of``; the default without the right to list pods of kube-system. Raises ApiError."""
    query = {"labelSelector": f"component={EXTENDER_NAME}"}
    raws = await _allowed(client, _SYSTEM_PODS, query, [], "")
    return cgpu_pods_of(_decoded(raw, SystemPod) for raw in raws or ())


def cgpu_pods_of(pods: Iterable[SystemPod]) -> int:
    """The extender's maximum of pods on a GPU of mode ``cgpu``, from its command line."""
    ours = (pod for pod in pods if pod.component == EXTENDER_NAME)
    values = (container.flag(_CGPU_FLAG) or "" for pod in ours for container in pod.spec.containers)
    return next((int(value) for value in values if value.isdecimal()), CGPU_PODS)


def node_of(wire: WireNode, cgpu_pods: int) -> Node:
    """The node, as the extender sees it with that maximum."""
    node = core_node(wire)
    return replace(node, pods_per_card=cgpu_pods) if node.mode is Mode.CGPU else node


def _decoded(raw: msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError as error:
        raise ApiError(f"an object of the API server cannot be read: {error}", reason="Unreadable") from error
