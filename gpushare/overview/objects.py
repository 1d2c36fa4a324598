"""Nodes and pods as the tools read them; an object that cannot be read becomes a ``Malformed``.

Objects are decoded one by one, so that one malformed object does not hide the others.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from msgspec import Raw, Struct, field

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import Bare, WireNode, WirePod, pod_of
from gpushare.contract import RESOURCE_WHOLE_GPU
from gpushare.errors import InvalidRequest
from gpushare.model.annotations import Shares
from gpushare.model.demand import Demand, Malformed
from gpushare.model.objects import Pod
from gpushare.model.quantity import parse_quantity
from gpushare.overview.lists import NODES, PODS, RUNNING, TIMEOUT_S, listed, node_path


class _RecordLimits(Struct, rename={"gpus": RESOURCE_WHOLE_GPU}):
    gpus: str | int | None = None


class _RecordResources(Struct):
    limits: _RecordLimits | None = None


class _RecordContainer(Struct):
    resources: _RecordResources | None = None


class _RecordSpec(Struct, rename="camel"):
    node_name: str | None = None
    containers: list[_RecordContainer] | None = None


class _RecordStatus(Struct):
    phase: str = ""


class _WholeCardPod(Struct):
    metadata: Bare | None = None
    spec: _RecordSpec = field(default_factory=_RecordSpec)
    status: _RecordStatus = field(default_factory=_RecordStatus)


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


_decode_node = msgspec.json.Decoder(WireNode).decode
_decode_pod = msgspec.json.Decoder(WirePod).decode
_decode_whole = msgspec.json.Decoder(_WholeCardPod).decode
_decode_bare = msgspec.json.Decoder(Bare).decode


def read_node(raw: Raw | bytes) -> WireNode | Malformed:
    """A node, also one without GPUs."""
    try:
        return _decode_node(raw)
    except msgspec.DecodeError as error:
        return Malformed(f"node {_name_of(raw)}: {error}")


def read_pod(raw: Raw | bytes) -> PodRecord | Malformed | None:
    """A pod; None if it is not bound or has no GPU."""
    try:
        wire = _decode_pod(raw)
        whole_cards = _whole_cards(_decode_whole(raw))
        pod = pod_of(wire)
        demand = _demand(pod) if pod else None
    except (msgspec.DecodeError, InvalidRequest) as error:
        return Malformed(f"pod {_name_of(raw)}: {error}")
    if not wire.spec.node_name or not (whole_cards or (demand and demand.mem)):
        return None
    return PodRecord(
        uid=wire.metadata.uid,
        namespace=wire.metadata.namespace,
        name=wire.metadata.name,
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


def _whole_cards(pod: _WholeCardPod) -> int:
    limits = (c.resources.limits for c in pod.spec.containers or () if c.resources and c.resources.limits)
    return sum(parse_quantity(limit.gpus) for limit in limits if limit.gpus is not None)


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """One snapshot of the cluster; ``problems`` describe the objects that cannot be read."""

    nodes: tuple[WireNode, ...]
    pods: tuple[PodRecord, ...]
    problems: tuple[str, ...]


def objects_of(
    nodes: Iterable[WireNode | Malformed], pods: Iterable[PodRecord | Malformed | None]
) -> ClusterObjects:
    """Splits readable objects from the problems of the others."""
    items = [*nodes, *pods]
    return ClusterObjects(
        nodes=tuple(item for item in items if isinstance(item, WireNode)),
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
