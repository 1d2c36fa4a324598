"""Registry mirror and pull secrets, applied to every object."""

from collections.abc import Iterable

from components.config import ClusterSettings
from components.manifests.parts import Object


def localized(manifest: Object, settings: ClusterSettings) -> Object:
    """The object with the registry and the pull secrets of this cluster; unchanged if it has no pods."""
    template = manifest.get("spec", {}).get("template")
    if template is None or not (settings.registry or settings.image_pull_secrets):
        return manifest
    pod = {**template["spec"]}
    for kind in ("initContainers", "containers"):
        if kind in pod:
            pod[kind] = [each | {"image": mirrored(each["image"], settings.registry)} for each in pod[kind]]
    if settings.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": each} for each in settings.image_pull_secrets]
    return manifest | {"spec": manifest["spec"] | {"template": template | {"spec": pod}}}


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
