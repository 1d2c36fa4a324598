"""Nodes, pods and exporters' pages of a small cluster, as the usage API reads them.

``gpu_node("n", 14, 14)`` is a node with two GPUs, ``gpu_pod("nb", "a", 4, on="n", card=0)`` a pod on one.
"""

from collections.abc import Mapping
from typing import Any

from gpushare.contract import (
    ANN_ALLOCATION,
    ANN_CARDS,
    ANN_IDX,
    ANN_POD,
    LABEL_CARDS_PER_POD,
    LABEL_CGPU,
    RESOURCE_COUNT,
    RESOURCE_MEM,
)
from gpushare.model.cards import Card, format_cards

Json = dict[str, Any]
CREATED = "2026-11-29T00:00:00Z"
GIB = 2**30


def gpu_node(
    name: str,
    *units: int,
    labels: Mapping[str, str] | None = None,
    whole: Mapping[int, tuple[str, ...]] | None = None,
    broken: tuple[int, ...] = (),
    **spec: Any,
) -> Json:
    """A node whose GPUs are T4s of so many GiB; ``whole`` are whole-GPU pods by index."""
    full = whole or {}
    cards = tuple(
        Card(
            index,
            size,
            f"GPU-{name}-{index}",
            "Tesla T4",
            size * 1024,
            healthy=index not in {*broken, *full},
            whole_gpu_pods=full.get(index, ()),
        )
        for index, size in enumerate(units)
    )
    amounts = {RESOURCE_MEM: str(sum(units)), RESOURCE_COUNT: str(len(units))} if units else {}
    return {
        "metadata": {
            "name": name,
            "labels": {LABEL_CGPU: "true", **(labels or {})},
            "annotations": {ANN_CARDS: format_cards(cards)} if units else {},
        },
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def gpu_pod(  # noqa: PLR0913 - what a pod can differ in
    name: str,
    namespace: str,
    units: Any = 4,
    *,
    on: str | None = None,
    card: int | None = None,
    gpus: int = 1,
    labels: Mapping[str, str] | None = None,
    container: str = "main",
    phase: str | None = None,
    status: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Json:
    """A pod: pending, or on a node; ``card`` is the GPU of its annotations."""
    annotations = {}
    if card is not None:
        annotations = {
            ANN_IDX: str(card),
            ANN_POD: str(units),
            ANN_ALLOCATION: f'{{"0":{{"{card}":{units}}}}}',
        }
    marks = {LABEL_CARDS_PER_POD: str(gpus)} if gpus > 1 else {}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "labels": {**marks, **(labels or {})},
            "annotations": annotations,
            "creationTimestamp": CREATED,
            **(meta or {}),
        },
        "spec": {
            "containers": [{"name": container, "resources": {"limits": {RESOURCE_MEM: units}}}],
            **({"nodeName": on} if on else {}),
            **(spec or {}),
        },
        "status": {"phase": phase or ("Running" if on else "Pending"), **(status or {})},
    }


def page(*containers: tuple[str, str, str, int, Mapping[str, float]], node: str = "n") -> bytes:
    """The page of an exporter: namespace, pod, container, GPU, and numbers by name.

    The name of a number is that of its series without ``gpushare_container_``.
    """
    lines = [f'gpushare_exporter_source_up{{node="{node}",source="nvml"}} 1']
    for namespace, pod, container, card, numbers in containers:
        labels = (
            f'namespace="{namespace}",pod="{pod}",container="{container}",'
            f'node="{node}",card="{card}",uuid="GPU-{node}-{card}"'
        )
        lines += [f"gpushare_container_{name}{{{labels}}} {value}" for name, value in numbers.items()]
    return "\n".join(lines).encode()
