"""Reads the Node objects of a request that the API does not know: templates of an autoscaler."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec
from msgspec import Raw

from gpushare.adapters.kube.decoding import decode_steps
from gpushare.adapters.kube.wire import WireNode, core_node
from gpushare.contract import LABEL_CARD_COUNT, LABEL_CARD_MODEL, REASON_NOT_SHARED, RESOURCE_COUNT
from gpushare.model.objects import Node

_LARGEST: Final = 3 * 2**19
"""Bytes of the largest object that etcd stores: no copy of a node is larger."""
_PER_STEP: Final = 50
"""Objects between two yields. Reading a usual one takes 20 µs."""

_node = msgspec.json.Decoder(WireNode)


@dataclass(frozen=True, slots=True)
class Templates:
    """The nodes that only the request knows: those that share GPUs, and why the others take no pod."""

    nodes: Mapping[str, Node]
    refused: Mapping[str, str]


def templates_steps(objects: Mapping[str, Raw]) -> Generator[None, None, Templates]:
    """The templates of a request. A bad one refuses itself, never the request. Yields after some."""
    nodes: dict[str, Node] = {}
    refused: dict[str, str] = {}
    for number, (name, item) in enumerate(objects.items(), start=1):
        found = yield from _read_steps(item)
        if isinstance(found, str):
            refused[name] = found
        elif found.closed or not found.cards:
            refused[name] = found.closed or REASON_NOT_SHARED.format(node=name)
        else:
            nodes[name] = found
        if number % _PER_STEP == 0:
            yield
    return Templates(nodes, refused)


def _read_steps(item: Raw) -> Generator[None, None, Node | str]:
    """The node of an object, or why it cannot be read."""
    if len(memoryview(item)) > _LARGEST:
        return f"this Node object has more than {_LARGEST} bytes"
    try:
        wire = yield from decode_steps(_node, item)
    except msgspec.DecodeError as error:
        return f"this Node object cannot be read: {error}"
    return _with_model(core_node(_with_count(wire)), wire)


def _with_model(node: Node, wire: WireNode) -> Node:
    """The node with the model of its GPUs from the label, where no agent has published it."""
    model = (wire.metadata.labels or {}).get(LABEL_CARD_MODEL, "")
    return replace(node, cards=tuple(replace(card, model=card.model or model) for card in node.cards))


def _with_count(wire: WireNode) -> WireNode:
    """The node with its number of GPUs from the label, where its capacity lacks it.

    Some providers can state labels of a new node, but only one extended resource.
    """
    count = (wire.metadata.labels or {}).get(LABEL_CARD_COUNT)
    if count is not None:
        wire.status.capacity = {RESOURCE_COUNT: count} | (wire.status.capacity or {})
    return wire
