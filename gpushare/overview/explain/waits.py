"""What keeps a pod waiting whatever nodes there are: its scheduler, claims, PodGroup and gates. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from gpushare.overview.explain.advice import Advice
from gpushare.overview.objects import ClusterPod
from gpushare.overview.storage import NO_PROVISIONER, Claim, Storage, StorageClass
from gpushare.overview.surroundings import Gang, Surroundings

_KUEUE: Final = "kueue.x-k8s.io/"


@dataclass(frozen=True, slots=True)
class Wait:
    """One cause in a sentence, and what ends it."""

    text: str
    remedies: tuple[Advice, ...] = ()


def waits(pod: ClusterPod, around: Surroundings) -> list[Wait]:
    """The causes in the order in which kube-scheduler checks them."""
    found = [_scheduler(pod, around), _gang(around.gang)]
    return [*filter(None, found), *(_claims(pod, around.storage) if around.storage else ())]


def other_scheduler(pod: ClusterPod, around: Surroundings) -> str:
    """Which schedulers ask the extender, if that of the pod does not seem to; else empty."""
    if not around.extended or pod.scheduler in around.extended:
        return ""
    named = " or ".join(sorted(around.extended))
    return (
        f"{pod.scheduler} has placed no pod by the extender: if it does not ask the extender, write "
        f"schedulerName: {named} in the pod"
    )


def gate_hint(gates: list[str], namespace: str) -> str:
    """Who removes the gates; empty if that is not known."""
    if not any(gate.startswith(_KUEUE) for gate in gates):
        return ""
    return f"Kueue removes its gate once the queue of the pod has quota: kubectl get workloads -n {namespace}"


def group_hint(gang: Gang | None) -> str:
    """That a pod which fits alone waits for the others of its group; empty without a group."""
    if gang is None or not gang.least or gang.least == 1:
        return ""
    return (
        f"it waits until at least {gang.least} pods of its PodGroup {gang.name} fit together: kubectl "
        "gpushare explain says what the others lack"
    )


def _scheduler(pod: ClusterPod, around: Surroundings) -> Wait | None:
    """Unknown in a cluster without any pod that a scheduler has placed or reported on."""
    name, active = pod.scheduler, around.schedulers
    if pod.seen or not active or name in active:
        return None
    text = f"no scheduler named {name} has reported on it, nor placed any pod of this cluster"
    named = " or ".join(sorted(active))
    step = f"write schedulerName: {named} in the pod, or start the scheduler {name}"
    return Wait(text, (Advice("scheduler", step, "kubectl gpushare doctor"),))


def _gang(gang: Gang | None) -> Wait | None:
    if gang is None:
        return None
    if gang.least is None:
        text = f"its PodGroup {gang.name} does not exist, so no scheduler considers it"
        return Wait(text, (Advice("gang", f"create the PodGroup {gang.name}"),))
    if gang.pods >= gang.least:
        return None
    text = f"its PodGroup {gang.name} waits for {gang.least} pods, and {gang.pods} exist"
    step = f"create the other {gang.least - gang.pods} pods, or lower minCount of the PodGroup"
    return Wait(text, (Advice("gang", step),))


def _claims(pod: ClusterPod, storage: Storage) -> Iterator[Wait]:
    for name, own in pod.claims.items():
        claim = storage.claims.get(name)
        wait = _absent(pod, name, storage, own=own) if claim is None else _unusable(name, claim, storage)
        if wait:
            yield wait


def _absent(pod: ClusterPod, name: str, storage: Storage, *, own: bool) -> Wait:
    namespace = pod.metadata.namespace
    if own:
        return Wait(f"Kubernetes has not made its claim {name} yet")
    near = get_close_matches(name, storage.claims, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    text = f"it mounts PersistentVolumeClaim {name}, which does not exist in namespace {namespace}{hint}"
    step = f"create the claim {name}, or correct its name in the pod"
    return Wait(text, (Advice("claim", step, f"kubectl get pvc -n {namespace}"),))


def _unusable(name: str, claim: Claim, storage: Storage) -> Wait | None:
    """Why kube-scheduler waits for a claim that exists; None if it does not."""
    if claim.status.phase == "Lost":
        text = f"the volume {claim.spec.volume_name} of its claim {name} no longer exists"
        return Wait(text, (Advice("claim", f"delete and create the claim {name}"),))
    if claim.metadata.deletion_timestamp:
        return Wait(
            f"its claim {name} is being deleted",
            (Advice("claim", f"wait until it is gone, then create the claim {name} anew"),),
        )
    if claim.bound or storage.classes is None:
        return None
    kind = storage.classes.get(claim.spec.storage_class_name or "")
    if kind and kind.waits_for_pod and not claim.spec.volume_name:
        return None
    return _unbound(name, claim, kind)


def _unbound(name: str, claim: Claim, kind: StorageClass | None) -> Wait:
    described = f"kubectl describe pvc -n {claim.metadata.namespace} {name}"
    wanted = claim.spec.storage_class_name
    if kind and kind.provisioner == NO_PROVISIONER:
        text = f"its claim {name} has no volume, and its StorageClass {wanted} makes none"
        return Wait(text, (Advice("claim", f"create a PersistentVolume of class {wanted}", described),))
    if wanted and kind is None:
        text = f"its claim {name} has no volume: there is no StorageClass {wanted}"
        step = f"create the StorageClass {wanted}, or the claim {name} with another one"
        return Wait(text, (Advice("claim", step, "kubectl get storageclass"),))
    text = f"its claim {name} has no volume yet, and its StorageClass makes one before a pod uses it"
    if not wanted:
        text = f"its claim {name} has no volume, and names no StorageClass that makes one"
    return Wait(text, (Advice("claim", f"see why claim {name} gets no volume", described),))
