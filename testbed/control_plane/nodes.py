"""Simulated nodes and GPU pods, as Kubernetes objects.

What belongs here: pure functions from a short description to an object. What does not: sending
them (``testbed.control_plane.bed``), and their simulation by kwok (``testbed.control_plane.stages``).
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpushare import contract
from testbed.control_plane.api import Object
from testbed.control_plane.commands import KWOK_SELECTOR

_SPACE = uuid.UUID("6f0d8f0e-1f0a-4a6c-9a57-5b6a3c1d2e4f")
_CONDITIONS = (
    ("Ready", "True", "KubeletReady"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
)


@dataclass(frozen=True)
class SimGpu:
    """One simulated GPU: memory in MiB and in units of gpu-mem. Empty fields get generated values."""

    model: str = "Tesla T4"
    mib: int = 15079
    units: int = 14
    numa: int = 0
    minor: int | None = None
    uuid: str = ""
    pci: str = ""
    healthy: bool = True


@dataclass(frozen=True)
class SimNode:
    """One simulated node.

    ``annotate_cards=False`` omits the list of GPUs, like the Aliyun plugin, which sets labels and resources
    only. ``allocatable`` overrides single resources.
    """

    name: str
    cards: Sequence[SimGpu] = ()
    address: str = "127.0.0.1"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    annotate_cards: bool = True
    allocatable: Mapping[str, str] = field(default_factory=dict)
    cpu: str = "64"
    memory: str = "512Gi"
    pods: int = 250
    machine_id: str = ""
    """The content of ``/etc/machine-id`` that the kubelet reports."""


def card_list(node: SimNode) -> list[dict[str, Any]]:
    """Return the content of the annotation ``gpushare.io/cards``."""
    return [_card(node.name, index, card) for index, card in enumerate(node.cards)]


def capacity(node: SimNode) -> dict[str, str]:
    """Return the resources of a node; without GPUs it has no GPU resources."""
    plain = {"cpu": node.cpu, "memory": node.memory, "pods": str(node.pods), "ephemeral-storage": "1Ti"}
    if not node.cards:
        return plain
    units = sum(card.units for card in node.cards)
    return {**plain, contract.RESOURCE_MEM: str(units), contract.RESOURCE_COUNT: str(len(node.cards))}


def node_object(node: SimNode) -> Object:
    """Return the Node; its status, accepted on creation, is Ready."""
    total = capacity(node)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": _labels(node), "annotations": _annotations(node)},
        "status": {
            "capacity": total,
            "allocatable": {**total, **node.allocatable},
            "addresses": [
                {"type": "InternalIP", "address": node.address},
                {"type": "Hostname", "address": node.name},
            ],
            "conditions": [
                {"type": kind, "status": status, "reason": reason, "message": "simulated"}
                for kind, status, reason in _CONDITIONS
            ],
            "nodeInfo": {**_NODE_INFO, "machineID": node.machine_id},
            # The heartbeat stages of kwok read it.
            "phase": "Running",
        },
    }


def gpu_pod(
    name: str,
    units: int | None = None,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    resources: Mapping[str, int | str] | None = None,
    **spec: Any,
) -> Object:
    """Return a pod of one container that requests ``units`` of gpu-mem and other ``resources``.

    Other arguments are fields of the pod spec, such as ``nodeName``. The grace period is 1 s unless
    ``terminationGracePeriodSeconds`` is given.
    """
    limits = {key: str(value) for key, value in (resources or {}).items()}
    if units is not None:
        limits[contract.RESOURCE_MEM] = str(units)
    container = {"name": "main", "image": "testbed/none", "resources": {"limits": limits}}
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "annotations": dict(annotations or {})},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }


def _card(node: str, index: int, card: SimGpu) -> dict[str, Any]:
    return {
        "index": index,
        "uuid": card.uuid or f"GPU-{uuid.uuid5(_SPACE, f'{node}/{index}')}",
        "model": card.model,
        "mib": card.mib,
        "units": card.units,
        "numa": card.numa,
        "minor": index if card.minor is None else card.minor,
        "pci": card.pci or f"00000000:00:{7 + index:02x}.0",
        "healthy": card.healthy,
    }


def _labels(node: SimNode) -> dict[str, str]:
    base = {"kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    shared = {contract.LABEL_GPUSHARE: "true"} if node.cards else {}
    return {**base, **shared, **node.labels}


def _annotations(node: SimNode) -> dict[str, str]:
    key, _, value = KWOK_SELECTOR.partition("=")
    base = {key: value}
    if node.cards and node.annotate_cards:
        base[contract.ANN_CARDS] = json.dumps(card_list(node), separators=(",", ":"))
    return {**base, **node.annotations}


_NODE_INFO = {
    "architecture": "amd64",
    "operatingSystem": "linux",
    "kubeletVersion": "v1.36.3",
    "kubeProxyVersion": "v1.36.3",
    "containerRuntimeVersion": "kwok://0.8.0",
    "kernelVersion": "simulated",
    "osImage": "simulated",
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
}
