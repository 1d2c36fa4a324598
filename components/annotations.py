"""How Pulumi's Kubernetes provider treats an object: annotations of resources, in no rendered file.

Facts: ``fieldManagerName``, ``allowsSkipAwaitWithDelete`` in pulumi/pulumi-kubernetes 94977969 of 2026-07-01.
"""

from typing import Final

from components.manifests.parts import Object

MANAGER: Final = "gpushare"
_FIELD_MANAGER: Final = "pulumi.com/patchFieldManager"
"""Without it, each resource gets a random manager, which only the state of the engine knows."""
_SKIP_AWAIT: Final = "pulumi.com/skipAwait"
_NOT_AWAITED: Final = {
    # The provider waits until a pod is ready on every node, also on those that are down.
    "DaemonSet",
    # Many volumes are created only for a pod.
    "PersistentVolumeClaim",
}


def annotated(manifest: Object) -> Object:
    """The object as a resource; annotations that it has already win."""
    metadata = manifest["metadata"]
    marks = {_FIELD_MANAGER: MANAGER}
    if manifest["kind"] in _NOT_AWAITED:
        marks[_SKIP_AWAIT] = "true"
    return manifest | {"metadata": metadata | {"annotations": marks | metadata.get("annotations", {})}}
