"""Which pods of a node must go before what they use goes, and which cannot be sent away. Pure."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

_MIRROR = "kubernetes.io/config.mirror"
_OVER = ("Succeeded", "Failed")


def sorted_out(pods, resources):
    """Return the pods that use one of the resources, or all where none is named: ``go``, ``bare``, ``stay``.

    Nobody makes ``bare`` pods again. The kubelet runs those that ``stay`` whatever happens, static ones, or
    a DaemonSet makes them again at once.
    """
    found = {"go": [], "bare": [], "stay": []}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in _OVER and (not resources or uses(pod, resources)):
            found[_kind(pod)].append(pod)
    return found


def uses(pod, resources):
    """Whether a container of any kind asks for one of the resources."""
    spec = pod["spec"]
    for container in (spec.get("containers") or []) + (spec.get("initContainers") or []):
        asked = container.get("resources") or {}
        for part in ("limits", "requests"):
            if any(name in resources for name in asked.get(part) or {}):
                return True
    return False


def with_emptydir(pods):
    """Return the pods that lose the data of an emptyDir when they go."""
    return [pod for pod in pods if any("emptyDir" in each for each in pod["spec"].get("volumes") or [])]


def full_name(pod):
    """Of the form ``namespace/name``."""
    return "{0}/{1}".format(pod["metadata"]["namespace"], pod["metadata"]["name"])


def _kind(pod):
    metadata = pod["metadata"]
    owners = [each["kind"] for each in metadata.get("ownerReferences") or [] if each.get("controller")]
    if _MIRROR in (metadata.get("annotations") or {}) or "DaemonSet" in owners:
        return "stay"
    return "go" if owners else "bare"
