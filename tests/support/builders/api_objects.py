"""Nodes and pods as in the API, and the views that the CLI derives from them."""

import json
from collections.abc import Iterable, Mapping
from textwrap import dedent
from typing import Any

from gpushare.contract import (
    ANN_ALLOCATION,
    ANN_IDX,
    ANN_POD,
    LABEL_CARDS_PER_POD,
    RESOURCE_COUNT,
    RESOURCE_MEM,
    RESOURCE_WHOLE_GPU,
)
from gpushare.overview.gpu_pods import objects_of, read_node, read_pod
from gpushare.overview.node_view import NodeView, views_of

Json = dict[str, Any]


def node(
    name: str,
    amounts: Mapping[str, Any] | None = None,
    *,
    address: str | None = "10.0.0.1",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    ready: bool = True,
    capacity: Mapping[str, Any] | None = None,
) -> Json:
    addresses = [{"type": "Hostname", "address": name}]
    if address is not None:
        addresses.append({"type": "InternalIP", "address": address})
    return {
        "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
        "status": {
            "capacity": amounts if capacity is None else capacity,
            "allocatable": amounts,
            "addresses": addresses,
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        },
    }


def share(mem: Any, count: Any = 1) -> Json:
    """Resources of a node that shares its GPUs."""
    return {RESOURCE_MEM: mem, RESOURCE_COUNT: count}


def whole(count: int) -> Json:
    """Resources of a node with whole GPUs."""
    return {RESOURCE_WHOLE_GPU: str(count)}


def pod(  # noqa: PLR0913 - what a pod can differ in
    name: str,
    on: str | None,
    mem: Any = None,
    *,
    namespace: str = "default",
    index: str | None = None,
    allocation: str | None = None,
    cards: int | None = None,
    gpus: int | None = None,
    phase: str = "Running",
) -> Json:
    limits = {RESOURCE_MEM: mem, RESOURCE_WHOLE_GPU: gpus}
    amount = str(mem) if index is not None else None
    annotations = {ANN_IDX: index, ANN_POD: amount, ANN_ALLOCATION: allocation}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": {LABEL_CARDS_PER_POD: str(cards)} if cards else {},
            "annotations": {key: value for key, value in annotations.items() if value is not None},
        },
        "spec": {
            "nodeName": on,
            "containers": [
                {
                    "name": "main",
                    "resources": {"limits": {k: v for k, v in limits.items() if v is not None}},
                }
            ],
        },
        "status": {"phase": phase},
    }


def views(nodes: Iterable[Json], pods: Iterable[Json] = ()) -> list[NodeView]:
    """The views of the objects."""
    found = objects_of(
        (read_node(json.dumps(item).encode()) for item in nodes),
        (read_pod(json.dumps(item).encode()) for item in pods),
    )
    assert not found.problems
    return views_of(found.nodes, found.pods)


def literal(text: str) -> str:
    """A text as documents show it, without its indentation; ``·`` is a blank that would be lost."""
    return dedent(text).removeprefix("\n").replace("·", " ")
