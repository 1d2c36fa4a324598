"""Selects the pods of a node to evict before their resources change. Pure."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

_MIRROR = "kubernetes.io/config.mirror"
_OVER = ("Succeeded", "Failed")


def classify(pods, resources):
    """Return the pods that use one of the resources, or all without resources: ``go``, ``bare``, ``stay``.

    Pods in ``go`` are recreated by a controller, ``bare`` pods are not. ``stay`` are static pods, which the
    kubelet runs in any case, and pods of DaemonSets, which are recreated on the node at once.
    """
    found = {"go": [], "bare": [], "stay": []}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in _OVER and (not resources or uses(pod, resources)):
            found[_kind(pod)].append(pod)
    return found


def uses(pod, resources):
    """Return whether a container or init container requests one of the resources."""
    spec = pod["spec"]
    for container in (spec.get("containers") or []) + (spec.get("initContainers") or []):
        resources_of = container.get("resources") or {}
        for part in ("limits", "requests"):
            if any(name in resources for name in resources_of.get(part) or {}):
                return True
    return False


def with_emptydir(pods):
    """Return the pods with an emptyDir, whose data an eviction deletes."""
    return [pod for pod in pods if any("emptyDir" in each for each in pod["spec"].get("volumes") or [])]


def full_name(pod):
    """Return ``namespace/name``."""
    return "{0}/{1}".format(pod["metadata"]["namespace"], pod["metadata"]["name"])


def _kind(pod):
    metadata = pod["metadata"]
    owners = [each["kind"] for each in metadata.get("ownerReferences") or [] if each.get("controller")]
    if _MIRROR in (metadata.get("annotations") or {}) or "DaemonSet" in owners:
        return "stay"
    return "go" if owners else "bare"
