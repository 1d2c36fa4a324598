"""API resources of the metrics API: pods and nodes with labels, the front proxy.

Only the fields that it uses are kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Struct

from gpushare.adapters.kube.watch import Resource
from gpushare.adapters.kube.wire import BareMeta, WireConfigMap
from gpushare.contract import AUTHENTICATION_CONFIG, SYSTEM_NAMESPACE


class _EntryMeta(BareMeta, rename="camel"):
    labels: dict[str, str] | None = None


class _EntrySpec(Struct, rename="camel"):
    node_name: str = ""


class _EntryStatus(Struct):
    phase: str = ""
    address: str = msgspec.field(default="", name="podIP")


class _Wire(Struct):
    metadata: _EntryMeta = msgspec.field(default_factory=_EntryMeta)
    spec: _EntrySpec = msgspec.field(default_factory=_EntrySpec)
    status: _EntryStatus = msgspec.field(default_factory=_EntryStatus)


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A pod or a node. ``address`` and ``node`` are a pod's IP and node; empty if not set."""

    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    address: str = ""
    running: bool = False


def _entry(wire: _Wire) -> tuple[str, DirectoryEntry]:
    meta, status = wire.metadata, wire.status
    running = status.phase == "Running"
    entry = DirectoryEntry(
        meta.namespace, meta.name, meta.labels or {}, wire.spec.node_name, status.address, running
    )
    return f"{meta.namespace}/{meta.name}", entry


def _data(wire: WireConfigMap) -> tuple[str, Mapping[str, str]]:
    return wire.metadata.name, wire.data or {}


PODS: Final[Resource[DirectoryEntry]] = Resource("pods", "/api/v1/pods", _Wire, _entry)
NODES: Final[Resource[DirectoryEntry]] = Resource("nodes", "/api/v1/nodes", _Wire, _entry)
AUTHENTICATION: Final[Resource[Mapping[str, str]]] = Resource(
    "configmaps",
    f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps",
    WireConfigMap,
    _data,
    {"fieldSelector": f"metadata.name={AUTHENTICATION_CONFIG}"},
)
