"""Asks an API server what the cluster is, before the engine creates anything."""

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from components.cluster import Cluster
from components.config_pods import control_plane_labels
from components.kubeconfig import as_files
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.errors import ApiError
from gpushare.kubescheduler.config import KubernetesVersion

_TIMEOUT_S: Final = 10.0
_NODES: Final = "/api/v1/nodes"
_SYSTEM: Final = "/api/v1/namespaces/kube-system"
_UNREADABLE: Final = "Unreadable"

T = TypeVar("T")


class _Version(msgspec.Struct):
    major: str
    minor: str


class _GroupVersion(msgspec.Struct, rename="camel"):
    group_version: str


class _Group(msgspec.Struct):
    versions: list[_GroupVersion]


class _Apis(msgspec.Struct):
    groups: list[_Group]


class _Metadata(msgspec.Struct):
    name: str
    uid: str


class _Object(msgspec.Struct):
    metadata: _Metadata


class _Rest(msgspec.Struct):
    remaining: int = msgspec.field(default=0, name="remainingItemCount")


class _Objects(msgspec.Struct):
    metadata: _Rest
    items: list[_Object] | None


def read_cluster(kubeconfig: str, context: str) -> Cluster:
    """What the cluster is. ``kubeconfig`` is a path or the content; "" for that of kubectl.

    Raises ConfigError if the access cannot be loaded, ApiError if the API server does not answer.
    """
    # The program runs in the event loop of the engine's SDK.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _survey(kubeconfig, context)).result()


async def _survey(kubeconfig: str, context: str) -> Cluster:
    with as_files(kubeconfig) as paths:
        async with KubeClient(await load_access(paths, context or None)) as client:
            return await _asked(client)


async def _asked(client: KubeClient) -> Cluster:
    found, apis = await asyncio.gather(_get(client, "/version", _Version), _get(client, "/apis", _Apis))
    version = _version(found)
    nodes, control_planes, uid = await asyncio.gather(
        _count(client), _control_planes(client, control_plane_labels(version)), _uid(client)
    )
    return Cluster(
        version=version,
        apis=frozenset(each.group_version for group in apis.groups for each in group.versions),
        nodes=nodes,
        control_planes=control_planes,
        uid=uid,
    )


def _version(found: _Version) -> KubernetesVersion:
    """Some providers add a plus sign to the minor version. Raises ApiError."""
    numbers = [re.sub(r"\D", "", text) for text in (found.major, found.minor)]
    if not all(numbers):
        raise ApiError(f"/version: {found.major!r}.{found.minor!r} is not a version", reason=_UNREADABLE)
    return KubernetesVersion(*map(int, numbers))


async def _count(client: KubeClient) -> int | None:
    """The API server tells how many nodes follow the first one."""
    nodes = await _allowed(client, _NODES, _Objects, limit="1")
    return None if nodes is None else len(nodes.items or ()) + nodes.metadata.remaining


async def _control_planes(client: KubeClient, labels: Sequence[str]) -> int | None:
    """A node may have both labels, and no selector means one or the other."""
    found = await asyncio.gather(
        *(_allowed(client, _NODES, _Objects, labelSelector=label) for label in labels)
    )
    lists = [each.items or () for each in found if each]
    return None if None in found else len({node.metadata.name for nodes in lists for node in nodes})


async def _uid(client: KubeClient) -> str | None:
    namespace = await _allowed(client, _SYSTEM, _Object)
    return None if namespace is None else namespace.metadata.uid


async def _allowed(client: KubeClient, path: str, kind: type[T], **query: str) -> T | None:
    """The answer; None without the right."""
    try:
        return await _get(client, path, kind, **query)
    except ApiError as error:
        if error.status in (401, 403):
            return None
        raise


async def _get(client: KubeClient, path: str, kind: type[T], **query: str) -> T:
    body = await client.request("GET", path, timeout_s=_TIMEOUT_S, query=query)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(f"{path}: the response cannot be read: {error}", reason=_UNREADABLE) from error
