"""Volumes of a pod as kube-scheduler's plugins VolumeBinding and VolumeZone (1.37) read them.

What does not belong here: capacities of drivers, limits of volumes on a node, and free PersistentVolumes of a
class, which are tried by the scheduler only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import quote

from msgspec import Struct
from msgspec import field as wire_field

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import LabelledMeta
from gpushare.errors import ApiError
from gpushare.overview.affinity import NodeTerms
from gpushare.overview.lists import decoded, if_allowed, listed
from gpushare.overview.objects import ClusterPod

_VOLUMES: Final = "/api/v1/persistentvolumes"
_CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""The provisioner of a class whose volumes an administrator makes."""
TOPOLOGY: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_OLD_TOPOLOGY: Final = {
    "failure-domain.beta.kubernetes.io/zone": TOPOLOGY[0],
    "failure-domain.beta.kubernetes.io/region": TOPOLOGY[1],
}
_ZONES: Final = "__"
"""Between the zones of a volume that is in several."""


class _Meta(LabelledMeta, rename="camel"):
    deletion_timestamp: str | None = None


class _ClaimSpec(Struct, rename="camel"):
    volume_name: str = ""
    storage_class_name: str | None = None


class _Phase(Struct):
    phase: str = ""


class Claim(Struct):
    """A PersistentVolumeClaim."""

    metadata: _Meta = wire_field(default_factory=_Meta)
    spec: _ClaimSpec = wire_field(default_factory=_ClaimSpec)
    status: _Phase = wire_field(default_factory=_Phase)

    @property
    def bound(self) -> bool:
        """Whether it has a volume."""
        return self.status.phase == "Bound"

    @property
    def selected_node(self) -> str:
        """The node for which its volume is being made."""
        return (self.metadata.annotations or {}).get(_SELECTED_NODE, "")


class _Required(Struct):
    required: NodeTerms | None = None


class _VolumeSpec(Struct, rename="camel"):
    node_affinity: _Required | None = None


class Volume(Struct):
    """A PersistentVolume."""

    metadata: LabelledMeta = wire_field(default_factory=LabelledMeta)
    spec: _VolumeSpec = wire_field(default_factory=_VolumeSpec)

    @property
    def terms(self) -> NodeTerms | None:
        """The nodes from which it can be reached; None for all."""
        return self.spec.node_affinity.required if self.spec.node_affinity else None

    @property
    def zones(self) -> dict[str, frozenset[str]]:
        """The zones and regions in its labels, by the label of nodes."""
        labels = self.metadata.labels or {}
        keys = {**{key: key for key in TOPOLOGY}, **_OLD_TOPOLOGY}
        return {keys[key]: frozenset(labels[key].split(_ZONES)) for key in keys if key in labels}


class StorageClass(Struct, rename="camel"):
    """A StorageClass."""

    metadata: LabelledMeta = wire_field(default_factory=LabelledMeta)
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"

    @property
    def waits_for_pod(self) -> bool:
        """Whether its volumes are made once the pod has a node."""
        return self.volume_binding_mode == "WaitForFirstConsumer"


@dataclass(frozen=True, slots=True)
class Storage:
    """The claims of a namespace by name, and the volumes and classes that they name.

    ``volumes`` and ``classes`` are None if they may not be read.
    """

    claims: Mapping[str, Claim] = field(default_factory=dict)
    volumes: Mapping[str, Volume] | None = None
    classes: Mapping[str, StorageClass] | None = None


_Kind = TypeVar("_Kind", Volume, StorageClass)


async def collect_storage(client: KubeClient, pod: ClusterPod, notes: list[str]) -> Storage | None:
    """The storage of a pod; None if it has no claims, or they may not be read. Raises ApiError."""
    if not pod.claims:
        return None
    namespace = quote(pod.metadata.namespace, safe="")
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    raws = await if_allowed(listed(client, path))
    if isinstance(raws, ApiError):
        notes.append(f"its volumes are not checked: {raws}")
        return None
    claims = {each.metadata.name: each for each in decoded(raws, Claim, path)}
    mine = [claims[name] for name in pod.claims if name in claims]
    volumes = await _by_name(client, _VOLUMES, Volume) if any(c.spec.volume_name for c in mine) else {}
    classes = await _by_name(client, _CLASSES, StorageClass) if not all(c.bound for c in mine) else {}
    if volumes is None:
        notes.append("this account may not list PersistentVolumes: the zones of its volumes are not checked")
    if classes is None:
        notes.append("this account may not list StorageClasses: its claims without a volume are not checked")
    return Storage(claims, volumes, classes)


async def _by_name(client: KubeClient, path: str, kind: type[_Kind]) -> dict[str, _Kind] | None:
    raws = await if_allowed(listed(client, path))
    if isinstance(raws, ApiError):
        return None
    return {each.metadata.name: each for each in decoded(raws, kind, path)}
