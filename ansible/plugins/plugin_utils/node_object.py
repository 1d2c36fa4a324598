"""What a Node object says of its machine, and of who has cordoned it. Pure.

What belongs here: reading Nodes. What does not: labels and taints (``node_mode``), and the API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Object = dict[str, Any]

_IDS = (("machine ID", "machineID"), ("system UUID", "systemUUID"))
"""As people call them, and as ``status.nodeInfo`` does."""


def not_this_machine(node: Object, host: Mapping[str, str], cluster: str) -> str:
    """Say why ``node`` of ``cluster`` is not, or cannot be shown to be, the machine; "" where it is.

    ``host`` has what the machine itself says, "" where it says nothing: ``machineID`` of /etc/machine-id, and
    ``systemUUID`` of its firmware.
    """
    name = node["metadata"]["name"]
    info = (node.get("status") or {}).get("nodeInfo") or {}
    pairs = [(title, info.get(key) or "", host.get(key) or "") for title, key in _IDS]
    known = [each for each in pairs if each[1] and each[2]]
    differing = [each for each in known if each[1].lower() != each[2].lower()]
    told = "; ".join(
        f"{title} {there or 'unknown'} there, {here or 'unknown'} here" for title, there, here in pairs
    )
    if differing:
        return f"node {name} of {cluster} is another machine than this host: {told}"
    return "" if known else f"node {name} of {cluster} cannot be compared with this host: {told}"


def is_cordoned(node: Object) -> bool:
    """Whether the scheduler passes the node over."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def is_cordoned_by(node: Object, annotation: str) -> bool:
    """Whether the cordon is that of the write that also set ``annotation``.

    Somebody may have uncordoned the node since, and somebody else cordoned it: then another manager of the
    object has the field. An API server that keeps no managers (before 1.18) leaves the annotation to decide.
    """
    metadata = node["metadata"]
    if not is_cordoned(node) or annotation not in (metadata.get("annotations") or {}):
        return False
    managers = [each.get("fieldsV1") or {} for each in metadata.get("managedFields") or []]
    return not managers or any(_has_both(fields, annotation) for fields in managers)


def cordon(node: Object, annotation: str, value: str) -> Object:
    """Return the patch that cordons the node and says whose cordon it is; empty where it is cordoned."""
    if is_cordoned(node):
        return {}
    return {"metadata": {"annotations": {annotation: value}}, "spec": {"unschedulable": True}}


def uncordon(node: Object, annotation: str) -> Object:
    """Return the patch that takes back what ``cordon`` did; empty where it did nothing.

    A cordon of somebody else's stays, and only the annotation goes.
    """
    if annotation not in (node["metadata"].get("annotations") or {}):
        return {}
    spec = {"spec": {"unschedulable": None}} if is_cordoned_by(node, annotation) else {}
    return {"metadata": {"annotations": {annotation: None}}, **spec}


def _has_both(fields: Object, annotation: str) -> bool:
    paths = (("f:spec", "f:unschedulable"), ("f:metadata", "f:annotations", f"f:{annotation}"))
    return all(_has(fields, iter(path)) for path in paths)


def _has(fields: Object, path: Iterator[str]) -> bool:
    here: Any = fields
    for key in path:
        if key not in here:
            return False
        here = here[key]
    return True
