"""Decodes the JSON of the API for the views; an object that cannot be read becomes a ``Malformed``.

Objects are decoded one by one, so that one malformed object does not hide the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from gpushare.adapters.kube.wire import Bare, WireNode, WirePod, pod_of
from gpushare.contract import RESOURCE_WHOLE_GPU
from gpushare.errors import InvalidRequest
from gpushare.model.annotations import parse_allocation
from gpushare.model.demand import Demand, Malformed
from gpushare.model.objects import Pod
from gpushare.model.quantity import parse_quantity, parse_small

_MAX_INT64: Final = 2**63 - 1


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

    ``cards`` is GPU index → units from its own annotations; empty if they do not have it.
    """

    uid: str
    namespace: str
    name: str
    node: str
    finished: bool
    units: int
    cards: Mapping[int, int]
    whole_cards: int


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
        units = _units(pod_of(wire))
    except (msgspec.DecodeError, InvalidRequest) as error:
        return Malformed(f"pod {_name_of(raw)}: {error}")
    if not wire.spec.node_name or not (units or whole_cards):
        return None
    return PodRecord(
        uid=wire.metadata.uid,
        namespace=wire.metadata.namespace,
        name=wire.metadata.name,
        node=wire.spec.node_name,
        finished=wire.status.phase in ("Succeeded", "Failed"),
        units=units,
        cards=_cards(wire, units),
        whole_cards=whole_cards,
    )


def _name_of(raw: Raw | bytes) -> str:
    try:
        meta = _decode_bare(raw).metadata
    except msgspec.DecodeError:
        return "(without a name)"
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def _units(pod: Pod | None) -> int:
    """Units of the pod; for an invalid request, the units that it has nevertheless."""
    if pod is None:
        return 0
    if isinstance(pod.demand, Demand):
        return pod.demand.mem
    if pod.demand.at_least is None:
        raise InvalidRequest(pod.demand.problem)
    return pod.demand.at_least.mem


def _whole_cards(pod: _WholeCardPod) -> int:
    limits = (c.resources.limits for c in pod.spec.containers or () if c.resources and c.resources.limits)
    return sum(parse_quantity(limit.gpus) for limit in limits if limit.gpus is not None)


def _cards(wire: WirePod, units: int) -> Mapping[int, int]:
    """The allocation annotation if it is valid, else all units on the GPU of the index annotation."""
    annotations = wire.metadata.annotations
    if annotations is None or not units:
        return {}
    allocation = parse_allocation(annotations.allocation) if annotations.allocation else None
    index = parse_small(annotations.idx)
    return within_int64(allocation) or ({index: units} if index is not None else {})


def within_int64(per_card: Mapping[int, int] | None) -> Mapping[int, int]:
    """The units per GPU; empty if an amount is larger than the Aliyun gpushare pair can read."""
    return per_card if per_card and max(per_card.values()) <= _MAX_INT64 else {}
