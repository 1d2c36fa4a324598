"""Asks an API server what the cluster is, before the engine creates anything."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from components.cluster import Cluster
from components.config import CONTROL_PLANE
from components.kubeconfig import as_files
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.errors import ApiError
from gpushare.kubescheduler.config import KubernetesVersion

_TIMEOUT_S: Final = 10.0
_NODES: Final = "/api/v1/nodes"
_SYSTEM: Final = "/api/v1/namespaces/kube-system"


def survey(kubeconfig: str, context: str) -> Cluster:
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
    version, apis = await asyncio.gather(_get(client, "/version"), _get(client, "/apis"))
    nodes, has_control_plane, uid = await asyncio.gather(
        _count(client), _has_control_plane(client), _uid(client)
    )
    return Cluster(
        version=KubernetesVersion(_number(version["major"]), _number(version["minor"])),
        apis=frozenset(each["groupVersion"] for group in apis["groups"] for each in group["versions"]),
        nodes=nodes,
        has_control_plane=has_control_plane,
        uid=uid,
    )


def _number(text: str) -> int:
    """Some providers add a plus sign to the minor version."""
    return int(re.sub(r"\D", "", text))


async def _count(client: KubeClient) -> int | None:
    nodes = await _nodes(client)
    return None if nodes is None else len(nodes["items"]) + nodes["metadata"].get("remainingItemCount", 0)


async def _has_control_plane(client: KubeClient) -> bool | None:
    found = await asyncio.gather(*(_nodes(client, labelSelector=label) for label in CONTROL_PLANE))
    return None if None in found else any(each["items"] for each in found if each)


async def _uid(client: KubeClient) -> str | None:
    namespace = await _allowed(client, _SYSTEM)
    return None if namespace is None else str(namespace["metadata"]["uid"])


async def _nodes(client: KubeClient, **query: str) -> Any:
    """One node, with the number of further ones unless there is a selector; None without the right."""
    return await _allowed(client, _NODES, limit="1", **query)


async def _allowed(client: KubeClient, path: str, **query: str) -> Any:
    try:
        return await _get(client, path, **query)
    except ApiError as error:
        if error.status in (401, 403):
            return None
        raise


async def _get(client: KubeClient, path: str, **query: str) -> Any:
    return msgspec.json.decode(await client.request("GET", path, timeout_s=_TIMEOUT_S, query=query))
