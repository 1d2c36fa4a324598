"""The nodes and pods that the shell completes. ``--help`` loads it: no slow imports."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import click

from gpushare.contract import RESOURCE_MEM, RESOURCE_WHOLE_GPU
from gpushare.errors import GpuShareError

if TYPE_CHECKING:
    import msgspec

    from gpushare.adapters.kube.client import KubeClient

_TIMEOUT_S: Final = 3.0


def nodes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Nodes with GPUs."""
    del parameter
    from gpushare.overview.gpu_pods import objects_of, read_node
    from gpushare.overview.lists import NODES

    found = objects_of(map(read_node, _listed(context, NODES, {})), ()).nodes
    cards = (RESOURCE_MEM, RESOURCE_WHOLE_GPU)
    with_gpus = (node for node in found if any(name in (node.status.capacity or {}) for name in cards))
    return _matching(incomplete, (node.metadata.name for node in with_gpus))


def pods(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Pods with GPUs, of the namespace of the flags."""
    del parameter
    from gpushare.overview.gpu_pods import objects_of, read_pod
    from gpushare.overview.lists import RUNNING

    query = {"fieldSelector": f"spec.nodeName!=,{RUNNING}"}
    found = objects_of((), map(read_pod, _listed(context, None, query))).pods
    return _matching(incomplete, (pod.name for pod in found))


def pending_pods(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Pods without a node that request shared GPUs, of the namespace of the flags."""
    del parameter
    import msgspec

    from gpushare.adapters.kube.wire import WirePod, pod_of

    raws = _listed(context, None, {"fieldSelector": "status.phase=Pending"})
    found = (pod_of(msgspec.json.decode(raw, type=WirePod)) for raw in raws)
    return _matching(incomplete, (pod.name for pod in found if pod and not pod.node))


def _matching(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})


def _listed(context: click.Context, path: str | None, query: dict[str, str]) -> "list[msgspec.Raw]":
    """Objects of the cluster that the flags select, by default pods; empty without a timely answer."""
    from gpushare.overview.connection import ApiSource
    from gpushare.overview.lists import listed, pods_path

    flags = context.params
    who = flags.get("user"), tuple(flags.get("groups") or ())
    source = ApiSource(flags.get("kubeconfig"), flags.get("context"), *who)

    async def found(client: "KubeClient") -> "list[msgspec.Raw]":
        namespace = source.namespace(flags.get("namespace"), everywhere=bool(flags.get("everywhere")))
        async with asyncio.timeout(_TIMEOUT_S):
            return await listed(client, path or pods_path(namespace), query)

    try:
        return source.ask(found)
    except (GpuShareError, TimeoutError):
        return []
