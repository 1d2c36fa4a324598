"""What every object of a stack has: registry mirror and pull secrets, labels and annotations."""

from collections.abc import Callable, Iterable, Mapping

from components.config import NONE, ClusterSettings
from components.manifests.parts import APP_LABEL, Object


def localized(manifest: Object, settings: ClusterSettings) -> Object:
    """The object with the registry, pull secrets, labels and annotations of this cluster."""
    if manifest["kind"] == "Node":
        return manifest
    # A namespace may have existed before, with a label ``app`` of its owner.
    common = NONE if manifest["kind"] == "Namespace" else APP_LABEL
    marked = _marked(manifest, settings, common)
    return _with_template(marked, lambda pod: _localized_template(pod, settings))


def _with_template(owner: Object, change: Callable[[Object], Object]) -> Object:
    """The workload with a changed template of its pods; a CronJob has it in its template of a Job."""
    spec = owner.get("spec", {})
    if "jobTemplate" in spec:
        return owner | {"spec": spec | {"jobTemplate": _with_template(spec["jobTemplate"], change)}}
    return owner | {"spec": spec | {"template": change(spec["template"])}} if "template" in spec else owner


def _localized_template(template: Object, settings: ClusterSettings) -> Object:
    return _marked(template, settings) | {"spec": _localized_pod(template["spec"], settings)}


def _marked(each: Object, settings: ClusterSettings, marks: Mapping[str, str] = NONE) -> Object:
    """With ``marks``, and the labels and annotations of the stack; its own labels and annotations win."""
    metadata = {**each.get("metadata", {})}
    for key, common in (("labels", {**settings.labels, **marks}), ("annotations", settings.annotations)):
        if common:
            metadata[key] = {**common, **metadata.get(key, {})}
    return each | {"metadata": metadata}


def _localized_pod(spec: Object, settings: ClusterSettings) -> Object:
    pod = {**spec}
    for kind in ("initContainers", "containers"):
        if kind in pod:
            pod[kind] = [each | {"image": mirrored(each["image"], settings.registry)} for each in pod[kind]]
    if settings.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": each} for each in settings.image_pull_secrets]
    return pod


def mirrored(image: str, registry: str) -> str:
    """The image in the mirror.

    The first part of a name is a host if it has a dot or a port, or is localhost; a name without a host is in
    the registry of Docker (github.com/distribution/reference).
    """
    if not registry:
        return image
    host, slash, path = image.partition("/")
    has_host = bool(slash) and ("." in host or ":" in host or host == "localhost")
    return f"{registry}/{path if has_host else image}"


def used(objects: Iterable[Object]) -> dict[str, str]:
    """The image of every container by ``<workload>/<container>``."""
    return {
        f"{each['metadata']['name']}/{container['name']}": container["image"]
        for each in objects
        if "template" in each.get("spec", {})
        for container in each["spec"]["template"]["spec"]["containers"]
    }
