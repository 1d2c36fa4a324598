"""Access to the parts of manifests, which may have any shape. Pure."""

from collections.abc import Iterator
from typing import Any, Final

Json = dict[str, Any]

_TEMPLATES: Final = {
    "Pod": (),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(
        ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"),
        ("spec", "template"),
    ),
}
_SERVER_FIELDS: Final = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"),
    *("ownerReferences", "generateName"),
)
_SERVER_ANNOTATIONS: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
)
_JOB_LABELS: Final = (
    *("controller-uid", "job-name"),
    *("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"),
)


def mapping(value: Any) -> Json:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Json]:
    """The mappings of a list; nothing else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def template(manifest: Json) -> Json | None:
    """The pod template of a workload, or the pod; None for another kind."""
    path = _TEMPLATES.get(str(manifest.get("kind")))
    if path is None:
        return None
    found = manifest
    for key in path:
        found = mapping(found.get(key))
    return found or None


def containers(pod: Json) -> Iterator[tuple[str, Json]]:
    """Each container with its kind in words, init containers first."""
    spec = mapping(pod.get("spec"))
    for key, kind in (("initContainers", "init container"), ("containers", "container")):
        yield from ((f"{kind} {each.get('name', '')}", each) for each in items(spec.get(key)))


def resources(container: Json) -> Json:
    """The limits of a container, and requests of what it does not limit."""
    found = mapping(container.get("resources"))
    return {**mapping(found.get("requests")), **mapping(found.get("limits"))}


def name_of(manifest: Json) -> str:
    """Such as ``Deployment ml/web``; the namespace is left out if the manifest has none."""
    meta = mapping(manifest.get("metadata"))
    parts = (meta.get("namespace"), meta.get("name") or meta.get("generateName"))
    return f"{manifest.get('kind')} {'/'.join(str(part) for part in parts if part)}"


def controller(manifest: Json) -> Json | None:
    """The reference to the object that creates it; None if no object does."""
    references = items(mapping(manifest.get("metadata")).get("ownerReferences"))
    return next((each for each in references if each.get("controller")), None)


def is_finished(manifest: Json) -> bool:
    """Whether a pod or a Job has ended."""
    status = mapping(manifest.get("status"))
    ended = (
        str(each.get("type")) for each in items(status.get("conditions")) if each.get("status") == "True"
    )
    return status.get("phase") in ("Succeeded", "Failed") or not {"Complete", "Failed"}.isdisjoint(ended)


def is_workload(kind: str) -> bool:
    """Whether ``template`` knows the kind."""
    return kind in _TEMPLATES


def cleaned(manifest: Json) -> Json:
    """Without what the API server sets, so that it can be applied. Changes and returns its argument."""
    manifest.pop("status", None)
    meta = mapping(manifest.get("metadata"))
    _drop(meta, _SERVER_FIELDS)
    _drop(mapping(meta.get("annotations")), _SERVER_ANNOTATIONS)
    if manifest.get("kind") == "Pod":
        mapping(manifest.get("spec")).pop("nodeName", None)
    if manifest.get("kind") == "Job" and not mapping(manifest.get("spec")).get("manualSelector"):
        mapping(manifest.get("spec")).pop("selector", None)
        for part in (manifest, template(manifest) or {}):
            _drop(mapping(mapping(part.get("metadata")).get("labels")), _JOB_LABELS)
    return manifest


def _drop(part: Json, keys: tuple[str, ...]) -> None:
    for key in keys:
        part.pop(key, None)
