"""What fits now: from all nodes and pods, or with the rights of one namespace from the usage API."""

import asyncio

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import WirePod, pod_of
from gpushare.model.usage_documents import GpuFitList
from gpushare.overview.fits import fit_steps, node_room
from gpushare.overview.ledger_inputs import collect_cgpu_pods, collect_unhealthy, node_of
from gpushare.overview.lists import NODES, PODS, RUNNING, decoded, listed
from gpushare.overview.objects import ClusterNode
from gpushare.overview.usage_api import fits_in, with_rights_of_namespace
from gpushare.scheduling.snapshot import books_of
from gpushare.scheduling.steps import result_of


async def collect(client: KubeClient, namespace: str, units: int, gpus: int) -> GpuFitList:
    """What fits for pods of that size. Raises ApiError, and ConfigError if this account may ask neither."""
    return await with_rights_of_namespace(
        _everywhere(client, units, gpus), lambda: fits_in(client, namespace, units, gpus), namespace
    )


async def _everywhere(client: KubeClient, units: int, gpus: int) -> GpuFitList:
    notes: list[str] = []
    # First alone: of two missing rights, the same one is always named.
    raw_nodes = await listed(client, NODES)
    raw_pods, unhealthy, cgpu_pods = await asyncio.gather(
        listed(client, PODS, {"fieldSelector": RUNNING}),
        collect_unhealthy(client, notes),
        collect_cgpu_pods(client),
    )
    nodes = {each.name: each for each in decoded(raw_nodes, ClusterNode, NODES)}
    pods = [pod for each in decoded(raw_pods, WirePod, PODS) if (pod := pod_of(each)) is not None]
    books = books_of([node_of(each, cgpu_pods) for each in nodes.values()], pods, unhealthy)
    rooms = [room for name, book in books.items() if (room := node_room(nodes[name], book))]
    return msgspec.structs.replace(result_of(fit_steps(rooms, units, gpus)), notes=tuple(notes))
