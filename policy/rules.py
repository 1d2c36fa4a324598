"""Rules for Kubernetes objects: a rule yields the violations of an object. Pure.

What does not belong here: Pulumi (``__main__.py``), and checks of settings (``components.checks``).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Object = Mapping[str, Any]
Rule = Callable[[Object], Iterator[str]]

HOST_NETWORK: Final = ("gpushare-schd-extender", "gpushare-device-plugin-ds", "gpushare-installer")
"""They start before the pod network, or serve or probe kube-scheduler, which uses the host network."""
NODE_FILES: Final = (
    "gpushare-device-plugin-ds",
    "device-plugin-evict-ds",
    "device-plugin-recover-ds",
    "gpushare-installer",
    "gpushare-exporter",
    "cgpu-installer",
    "gpushare-mps",
)
"""They use files of the node that belong to root: sockets of the kubelet, static pods, libraries."""
HOST_PROCESSES: Final = (
    "gpushare-exporter",
    "gpushare-device-plugin-ds",
    "gpushare-installer",
    "gpushare-mps",
)
"""The driver reports processes by the pids of the host; the installer waits for a process of its node."""
CAPABILITIES: Final[Mapping[str, tuple[str, ...]]] = {"gpushare-mps": ("SYS_ADMIN", "SETUID", "SETGID")}
"""It sets the compute mode of GPUs, and MPS runs its servers as the users of their clients."""
NO_PROBES: Final = ("device-plugin-evict-ds", "device-plugin-recover-ds")
"""They move one file and then wait for SIGTERM: there is nothing to probe."""
_PROBED: Final = ("Deployment", "DaemonSet", "StatefulSet")
_PINNED: Final = re.compile(r".+@sha256:[0-9a-f]{64}|.+:(?!latest$)[^:/@]+")
_SIZES: Final = ("cpu", "memory")
_LABELS: Final = ("app", "component")


def pinned_images(manifest: Object) -> Iterator[str]:
    """Images have a digest or a tag other than latest."""
    for container in _containers(manifest):
        image = container.get("image", "")
        if not _PINNED.fullmatch(str(image)):
            yield f"container {container['name']}: image {image!r} is not pinned"


def no_privileged_pods(manifest: Object) -> Iterator[str]:
    """No pod is privileged, and containers drop all capabilities."""
    for container in _containers(manifest):
        security = container.get("securityContext") or {}
        if security.get("privileged"):
            yield f"container {container['name']}: privileged"
        if security.get("allowPrivilegeEscalation") is not False:
            yield f"container {container['name']}: allowPrivilegeEscalation is not false"
        capabilities = security.get("capabilities") or {}
        if list(capabilities.get("drop") or ()) != ["ALL"]:
            yield f"container {container['name']}: does not drop all capabilities"
        allowed = next((names for workload, names in CAPABILITIES.items() if _is(manifest, (workload,))), ())
        if extra := set(capabilities.get("add") or ()) - set(allowed):
            yield f"container {container['name']}: adds capabilities {', '.join(sorted(extra))}"
    if _pod(manifest).get("hostIPC"):
        yield "hostIPC is true"
    if _pod(manifest).get("hostPID") and not _is(manifest, HOST_PROCESSES):
        yield "hostPID is true"


def no_host_access(manifest: Object) -> Iterator[str]:
    """Only listed workloads use the node's network, its files, or root."""
    pod = _pod(manifest)
    if pod.get("hostNetwork") and not _is(manifest, HOST_NETWORK):
        yield "hostNetwork is true"
    if _is(manifest, NODE_FILES):
        return
    for volume in pod.get("volumes") or ():
        if "hostPath" in volume:
            yield f"volume {volume['name']}: hostPath {volume['hostPath'].get('path')!r}"
    for container in _containers(manifest):
        security = {**(pod.get("securityContext") or {}), **(container.get("securityContext") or {})}
        if not security.get("runAsNonRoot"):
            yield f"container {container['name']}: runAsNonRoot is not true"


def requests_and_limits(manifest: Object) -> Iterator[str]:
    """Every container has requests and limits of CPU and memory."""
    for container in _containers(manifest):
        resources = container.get("resources") or {}
        for kind in ("requests", "limits"):
            for size in _SIZES:
                if size not in (resources.get(kind) or {}):
                    yield f"container {container['name']}: no {size} in resources.{kind}"


def liveness_and_readiness_probes(manifest: Object) -> Iterator[str]:
    """Every container that serves has a liveness and a readiness probe."""
    if manifest.get("kind") not in _PROBED or _is(manifest, NO_PROBES):
        return
    for container in _containers(manifest):
        for probe in ("livenessProbe", "readinessProbe"):
            if not container.get(probe):
                yield f"container {container['name']}: no {probe}"


def project_labels(manifest: Object) -> Iterator[str]:
    """Workloads and their pods have the labels of the project."""
    if not _pod(manifest):
        return
    metadata_of = {"metadata": manifest, "the pod's metadata": _template(manifest)}
    for path, part in metadata_of.items():
        for label in _LABELS:
            if label not in ((part.get("metadata") or {}).get("labels") or {}):
                yield f"{path} has no label {label}"


RULES: Final[Mapping[str, Rule]] = {
    "pinned-images": pinned_images,
    "no-privileged-pods": no_privileged_pods,
    "no-host-access": no_host_access,
    "requests-and-limits": requests_and_limits,
    "liveness-and-readiness-probes": liveness_and_readiness_probes,
    "project-labels": project_labels,
}


def _pod(manifest: Object) -> Object:
    """Return the spec of the pod template, empty if the object has none."""
    pod: Object = _template(manifest).get("spec") or {}
    return pod


def _template(manifest: Object) -> Object:
    """Return the pod template, which a CronJob has in its template of a Job; empty if there is none."""
    spec = manifest.get("spec") or {}
    owner = (spec.get("jobTemplate") or {}).get("spec") or spec
    template: Object = owner.get("template") or {}
    return template


def _containers(manifest: Object) -> Iterator[Object]:
    pod = _pod(manifest)
    for key in ("initContainers", "containers"):
        yield from pod.get(key) or ()


def _is(manifest: Object, listed: tuple[str, ...]) -> bool:
    """Return whether the workload is listed; the name of a node pool may follow as a suffix."""
    name = str((manifest.get("metadata") or {}).get("name", ""))
    return any(name == each or name.startswith(f"{each}-") for each in listed)
