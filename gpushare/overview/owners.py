"""The workload that a pod belongs to: its Deployment, StatefulSet, Job or other controller. Pure."""

from typing import Final, NamedTuple

from gpushare.adapters.kube.wire import PodMeta

_HASH_LABEL: Final = "pod-template-hash"


class PodOwner(NamedTuple):
    """The workload of a pod; a pod without a controller is its own."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


def owner_of(meta: PodMeta) -> PodOwner:
    """Its controller; the Deployment of a ReplicaSet, whose name the Deployment and the hash make."""
    found = next((each for each in meta.owner_references or () if each.controller), None)
    if found is None:
        return PodOwner("Pod", meta.name)
    suffix = f"-{(meta.labels or {}).get(_HASH_LABEL, '')}"
    if found.kind == "ReplicaSet" and suffix != "-" and found.name.endswith(suffix):
        return PodOwner("Deployment", found.name.removesuffix(suffix))
    return PodOwner(found.kind, found.name)
