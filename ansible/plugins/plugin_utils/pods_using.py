"""Selects the pods of a node to evict before their resources change. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

Pod = dict[str, Any]

_MIRROR = "kubernetes.io/config.mirror"
_OVER = ("Succeeded", "Failed")


def classify(pods: Iterable[Pod], resources: Collection[str]) -> dict[str, list[Pod]]:
    """Return the pods that use one of the resources, or all without resources: ``go``, ``bare``, ``stay``.

    Pods in ``go`` are recreated by a controller, ``bare`` pods are not. ``stay`` are static pods, which the
    kubelet runs in any case, and pods of DaemonSets, which are recreated on the node at once.
    """
    found: dict[str, list[Pod]] = {"go": [], "bare": [], "stay": []}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in _OVER and (not resources or uses(pod, resources)):
            found[_kind(pod)].append(pod)
    return found


def uses(pod: Pod, resources: Collection[str]) -> bool:
    """Return whether a container or init container requests one of the resources."""
    spec = pod["spec"]
    asked = (
        (container.get("resources") or {}).get(part) or {}
        for container in (spec.get("containers") or []) + (spec.get("initContainers") or [])
        for part in ("limits", "requests")
    )
    return any(name in resources for names in asked for name in names)


def with_emptydir(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods with an emptyDir, whose data an eviction deletes."""
    return [pod for pod in pods if any("emptyDir" in each for each in pod["spec"].get("volumes") or [])]


def full_name(pod: Pod) -> str:
    """Return ``namespace/name``."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _kind(pod: Pod) -> str:
    metadata = pod["metadata"]
    owners = [each["kind"] for each in metadata.get("ownerReferences") or [] if each.get("controller")]
    if _MIRROR in (metadata.get("annotations") or {}) or "DaemonSet" in owners:
        return "stay"
    return "go" if owners else "bare"
