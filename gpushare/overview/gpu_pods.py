"""Nodes and pods as the tools read them; an object that cannot be read becomes a ``Malformed``.

Objects are decoded one by one, so that one malformed object does not hide the others.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import Bare, pod_of
from gpushare.errors import InvalidRequest
from gpushare.model.annotations import Shares
from gpushare.model.demand import Demand, Malformed
from gpushare.model.objects import Pod
from gpushare.overview.lists import NODES, PODS, RUNNING, TIMEOUT_S, listed, node_path
from gpushare.overview.objects import ClusterNode, ClusterPod


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A bound pod with units of shared GPUs, whole GPUs, or both.

    ``demand`` is None if it requests whole GPUs only, ``claim`` if its annotations do not name its GPUs.
    """

    uid: str
    namespace: str
    name: str
    node: str
    finished: bool
    demand: Demand | None
    claim: Shares | None
    whole_cards: int

    @property
    def units(self) -> int:
        """Requested units of shared GPUs."""
        return self.demand.mem if self.demand else 0


_decode_node = msgspec.json.Decoder(ClusterNode).decode
_decode_pod = msgspec.json.Decoder(ClusterPod).decode
_decode_bare = msgspec.json.Decoder(Bare).decode


def read_node(raw: Raw | bytes) -> ClusterNode | Malformed:
    """A node, also one without GPUs."""
    try:
        return _decode_node(raw)
    except msgspec.DecodeError as error:
        return Malformed(f"node {_name_of(raw)}: {error}")


def read_cluster_pod(raw: Raw | bytes) -> ClusterPod | Malformed:
    """A pod, also one without GPUs."""
    try:
        return _decode_pod(raw)
    except msgspec.DecodeError as error:
        return Malformed(f"pod {_name_of(raw)}: {error}")


def read_pod(raw: Raw | bytes) -> PodRecord | Malformed | None:
    """A pod; None if it is not bound or has no GPU."""
    pod = read_cluster_pod(raw)
    return pod if isinstance(pod, Malformed) else record_of(pod, pod_of(pod))


def record_of(wire: ClusterPod, pod: Pod | None) -> PodRecord | Malformed | None:
    """The record of a pod, of which ``pod`` is the model; None if it is not bound or has no GPU."""
    meta = wire.metadata
    try:
        whole_cards = wire.whole_gpus
        demand = _demand(pod) if pod else None
    except InvalidRequest as error:
        return Malformed(f"pod {meta.namespace}/{meta.name}: {error}")
    if not wire.spec.node_name or not (whole_cards or (demand and demand.mem)):
        return None
    return PodRecord(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        node=wire.spec.node_name,
        finished=wire.status.phase in ("Succeeded", "Failed"),
        demand=demand,
        claim=pod.claim if pod else None,
        whole_cards=whole_cards,
    )


def _name_of(raw: Raw | bytes) -> str:
    try:
        meta = _decode_bare(raw).metadata
    except msgspec.DecodeError:
        return "(without a name)"
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def _demand(pod: Pod) -> Demand:
    """What the pod requests; for an invalid request, what it has nevertheless."""
    if isinstance(pod.demand, Demand):
        return pod.demand
    if pod.demand.at_least is None:
        raise InvalidRequest(pod.demand.problem)
    return pod.demand.at_least


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """One snapshot of the cluster; ``problems`` describe the objects that cannot be read."""

    nodes: tuple[ClusterNode, ...]
    pods: tuple[PodRecord, ...]
    problems: tuple[str, ...]


def objects_of(
    nodes: Iterable[ClusterNode | Malformed], pods: Iterable[PodRecord | Malformed | None]
) -> ClusterObjects:
    """Splits readable objects from the problems of the others."""
    items = [*nodes, *pods]
    return ClusterObjects(
        nodes=tuple(item for item in items if isinstance(item, ClusterNode)),
        pods=tuple(item for item in items if isinstance(item, PodRecord)),
        problems=tuple(item.problem for item in items if isinstance(item, Malformed)),
    )


async def collect_objects(client: KubeClient, name: str | None) -> ClusterObjects:
    """All nodes and their pods, or one node and its pods. Raises ApiError; 404 for an unknown node."""
    if name:
        path = node_path(name)
        nodes = [msgspec.Raw(await client.request("GET", path, timeout_s=TIMEOUT_S))]
    else:
        nodes = await listed(client, NODES)
    bound = f"spec.nodeName={name}" if name else "spec.nodeName!="
    pods = await listed(client, PODS, {"fieldSelector": f"{bound},{RUNNING}"})
    return objects_of(map(read_node, nodes), map(read_pod, pods))
