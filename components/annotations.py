"""How Pulumi's Kubernetes provider treats an object: annotations of resources, in no rendered file.

Facts: ``fieldManagerName``, ``DeletionPropagation`` and ``allowsSkipAwaitWithDelete`` in
pulumi/pulumi-kubernetes 94977969 of 2026-07-01.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from components.manifests.parts import Object

MANAGER: Final = "gpushare"
_FIELD_MANAGER: Final = "pulumi.com/patchFieldManager"
"""Without it, each resource gets a random manager, which only the state of the engine knows."""
_SKIP_AWAIT: Final = "pulumi.com/skipAwait"
_PROPAGATION: Final = "pulumi.com/deletionPropagationPolicy"
_BY_KIND: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        # The provider waits until a pod is ready on every node, also on those that are down. What it does not
        # await, it deletes without a wait: by default, the object would exist until its last pod has ended,
        # and the next creation would fail.
        "DaemonSet": {_SKIP_AWAIT: "true", _PROPAGATION: "background"},
        # Many volumes are created only for a pod.
        "PersistentVolumeClaim": {_SKIP_AWAIT: "true"},
    }
)


def annotated(manifest: Object) -> Object:
    """The object as a resource; annotations that it has already win."""
    metadata = manifest["metadata"]
    marks = {_FIELD_MANAGER: MANAGER, **_BY_KIND.get(manifest["kind"], {})}
    return manifest | {"metadata": metadata | {"annotations": marks | metadata.get("annotations", {})}}
