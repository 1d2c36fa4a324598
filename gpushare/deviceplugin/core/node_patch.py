"""The desired state of the node's object in the API, and the merge patch that leads to it. Pure.

The kubelet sets extended resources to zero when it registers its node again, and a node's object may be
recreated. So the object is compared after every change, and lost values are patched again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gpushare.contract import (
    ANN_ASSIGNED_NODE,
    ANN_CARDS,
    ANN_CLOSED,
    ANN_DEVICE_LIST,
    ANN_OPENED,
    LABEL_CARD_COUNT,
    LABEL_CARD_MIB,
    LABEL_CARD_MODEL,
    LABEL_OPERATOR_PLUGIN,
    LABEL_UNLISTED,
    RESOURCE_COUNT,
    RESOURCE_TIME_SLICED_GPU,
    RESOURCE_WHOLE_GPU,
)
from gpushare.deviceplugin.core.shared_gpus import SharedGpus
from gpushare.model.card_models import label_value
from gpushare.model.cards import format_cards
from gpushare.model.device_lists import FIRST_MINOR_WITH_CDI, ignores_cdi
from gpushare.model.local_node import LocalNode
from gpushare.model.modes import mode_of
from gpushare.model.options import DeviceListStrategy

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DesiredNode:
    """The desired values; None removes a key. Keys that are not listed stay as they are."""

    annotations: Mapping[str, str | None] = field(default_factory=dict)
    labels: Mapping[str, str | None] = field(default_factory=dict)
    resources: Mapping[str, int | None] = field(default_factory=dict)


def desired_node(
    shared_gpus: SharedGpus | None,
    assigned: str,
    closed: str | None = None,
    opened: str | None = None,
    *,
    device_list: str = "",
) -> DesiredNode:
    """The desired values of a node with these shared GPUs; None withdraws them all.

    ``assigned`` is the text of ``gpushare.io/assigned``, which stays while pods have allocations, ``closed``
    is why the node takes no new pods, ``opened`` when it last began to, and ``device_list`` how containers
    get their GPUs; None and "" for what the node has.
    """
    annotations = {ANN_ASSIGNED_NODE: assigned, ANN_CLOSED: closed}
    if opened is not None:
        annotations[ANN_OPENED] = opened
    if device_list:
        annotations[ANN_DEVICE_LIST] = device_list
    if shared_gpus is None:
        return DesiredNode({ANN_CARDS: None, **annotations}, {}, {RESOURCE_COUNT: None})
    return DesiredNode(
        {ANN_CARDS: format_cards(shared_gpus.cards), **annotations},
        _labels(shared_gpus),
        {RESOURCE_COUNT: len(shared_gpus.cards)},
    )


def _labels(shared_gpus: SharedGpus) -> dict[str, str | None]:
    """The labels of ACK, which describe the first GPU of a node (``nvidia_mem=15079MiB``)."""
    first = shared_gpus.cards[0] if shared_gpus.cards else None
    return {
        LABEL_CARD_MODEL: label_value(first.model) if first else None,
        LABEL_CARD_MIB: f"{first.mib}MiB" if first else None,
        LABEL_CARD_COUNT: str(len(shared_gpus.cards) + len(shared_gpus.excluded)),
        LABEL_UNLISTED: label_value(shared_gpus.unlisted[0]) if shared_gpus.unlisted else None,
    }


def patch(actual: LocalNode, desired: DesiredNode, *, labels: bool = True) -> dict[str, Any] | None:
    """The merge patch of node and status; None if the node has all desired values.

    ``labels=False`` omits the labels, for agents without the permission to set them.
    """
    metadata = _section(
        annotations=_differing(actual.annotations, desired.annotations),
        labels=_differing(actual.labels, desired.labels) if labels else {},
    )
    status = _section(
        capacity=_differing(actual.capacity, desired.resources),
        allocatable=_differing(actual.allocatable, desired.resources),
    )
    return _section(metadata=metadata, status=status) or None


def _differing(actual: Mapping[str, T], desired: Mapping[str, T | None]) -> dict[str, T | None]:
    return {key: value for key, value in desired.items() if actual.get(key) != value}


def _section(**parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if part}


def without_labels(merge: Mapping[str, Any]) -> dict[str, Any]:
    """The patch without its labels; empty if nothing else is left."""
    metadata = {name: part for name, part in merge.get("metadata", {}).items() if name != "labels"}
    return _section(metadata=metadata, status=merge.get("status", {}))


def applied(actual: LocalNode, merge: Mapping[str, Any]) -> LocalNode:
    """The node after the merge patch."""
    metadata, status = merge.get("metadata", {}), merge.get("status", {})
    return replace(
        actual,
        annotations=_merged(actual.annotations, metadata.get("annotations", {})),
        labels=_merged(actual.labels, metadata.get("labels", {})),
        capacity=_merged(actual.capacity, status.get("capacity", {})),
        allocatable=_merged(actual.allocatable, status.get("allocatable", {})),
    )


def _merged(actual: Mapping[str, T], changes: Mapping[str, T | None]) -> dict[str, T]:
    merged = {**actual, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def not_serving_reason(
    node: LocalNode, strategy: DeviceListStrategy | None = DeviceListStrategy.MOUNTS
) -> str | None:
    """Why the GPUs cannot be served now; None if they can.

    ``strategy`` is how containers get them, None if the agent decides.

    Two plugins would allocate the same GPU twice, so this one waits until the other offers none.
    """
    _, problem = mode_of(node.labels)
    if problem:
        return problem
    if strategy is DeviceListStrategy.CDI and ignores_cdi(node.kubelet_version):
        return (
            f"kubelet {node.kubelet_version} ignores CDI devices of a device plugin, so containers would get "
            f"no GPU: start with --device-list-strategy={DeviceListStrategy.MOUNTS}, or use Kubernetes "
            f"1.{FIRST_MINOR_WITH_CDI} or later"
        )
    for resource in (RESOURCE_WHOLE_GPU, RESOURCE_TIME_SLICED_GPU):
        others = node.allocatable.get(resource, 0)
        if others > 0:
            found = f"another device plugin still offers {others} of {resource} on this node"
            return f"{found}; {_how_to_stop_it(node)}"
    return None


def _how_to_stop_it(node: LocalNode) -> str:
    if node.labels.get(LABEL_OPERATOR_PLUGIN) == "true":
        return (
            "the GPU Operator runs it, stop it with "
            f"kubectl label node {node.name} {LABEL_OPERATOR_PLUGIN}=false --overwrite"
        )
    return (
        "stop it there: a static pod with gpushare node-mode evict, a DaemonSet with a node affinity that "
        "excludes this node"
    )
