"""Nodes and pods of the board: each API object is decoded once, by the readers of the other commands."""

from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from gpushare.adapters.kube.wire import WireNode, WirePod, pod_of
from gpushare.model.demand import Malformed
from gpushare.model.objects import Pod
from gpushare.overview.explain.objects import ExplainedNode, ExplainedPod
from gpushare.overview.objects import PodRecord, read_node, read_pod
from gpushare.overview.owners import OwnedPod, PodOwner

_decode_node: Final = msgspec.json.Decoder(ExplainedNode).decode
_decode_pod: Final = msgspec.json.Decoder(WirePod).decode
_decode_pending: Final = msgspec.json.Decoder(ExplainedPod).decode
_decode_owned: Final = msgspec.json.Decoder(OwnedPod).decode


@dataclass(frozen=True, slots=True)
class BoardNode:
    """A node as ``inspect`` and as ``explain`` read it."""

    wire: WireNode
    details: ExplainedNode


@dataclass(frozen=True, slots=True)
class BoardPod:
    """A pod that requests GPUs: ``record`` once it is bound, ``details`` until then.

    ``core`` is None for a pod that requests only whole GPUs.
    """

    namespace: str
    name: str
    owner: PodOwner
    record: PodRecord | None
    core: Pod | None
    details: ExplainedPod | None


def read_board_node(raw: Raw | bytes) -> BoardNode | Malformed:
    """A node, also one without GPUs."""
    wire = read_node(raw)
    if isinstance(wire, Malformed):
        return wire
    try:
        return BoardNode(wire, _decode_node(raw))
    except msgspec.DecodeError as error:
        return Malformed(f"node {wire.metadata.name}: {error}")


def read_board_pod(raw: Raw | bytes) -> BoardPod | Malformed | None:
    """A pod; None if it requests no GPU, or is unbound and requests only whole GPUs."""
    try:
        wire = _decode_pod(raw)
        core = pod_of(wire)
        record = read_pod(raw) if wire.spec.node_name else None
        if isinstance(record, Malformed):
            return record
        if record is None and core is None:
            return None
        details = None if record else _decode_pending(raw)
        owner = _decode_owned(raw).owner
    except msgspec.DecodeError as error:
        named = read_pod(raw)
        return named if isinstance(named, Malformed) else Malformed(f"a pod cannot be read: {error}")
    return BoardPod(wire.metadata.namespace, wire.metadata.name, owner, record, core, details)
