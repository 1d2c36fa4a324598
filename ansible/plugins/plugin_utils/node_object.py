"""Machine IDs and cordons of Node objects. Pure.

What belongs here: reading Nodes. What does not: labels and taints (``node_mode``), and the API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Object = dict[str, Any]

_IDS = (("machine ID", "machineID"), ("system UUID", "systemUUID"))
"""Names for messages, and fields of ``status.nodeInfo``."""


def not_this_machine(node: Object, host: Mapping[str, str], cluster: str) -> str:
    """Return why ``node`` of ``cluster`` is not, or may not be, this machine; "" if it is.

    ``host`` has the IDs of the machine, "" if unknown: ``machineID`` from /etc/machine-id, and ``systemUUID``
    from the firmware.
    """
    name = node["metadata"]["name"]
    info = (node.get("status") or {}).get("nodeInfo") or {}
    pairs = [(title, info.get(key) or "", host.get(key) or "") for title, key in _IDS]
    known = [each for each in pairs if each[1] and each[2]]
    differing = [each for each in known if each[1].lower() != each[2].lower()]
    ids = "; ".join(
        f"{title} {there or 'unknown'} there, {here or 'unknown'} here" for title, there, here in pairs
    )
    if differing:
        return f"node {name} of {cluster} is another machine than this host: {ids}"
    return "" if known else f"node {name} of {cluster} cannot be compared with this host: {ids}"


def is_cordoned(node: Object) -> bool:
    """Whether the node is unschedulable."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def is_cordoned_by(node: Object, annotation: str) -> bool:
    """Whether the cordon is from the request that also set ``annotation``.

    If the node was uncordoned and cordoned again since, the field has another field manager. API servers
    before 1.18 do not track managers; then the annotation decides.
    """
    metadata = node["metadata"]
    if not is_cordoned(node) or annotation not in (metadata.get("annotations") or {}):
        return False
    managers = [each.get("fieldsV1") or {} for each in metadata.get("managedFields") or []]
    return not managers or any(_has_both(fields, annotation) for fields in managers)


def cordon(node: Object, annotation: str, value: str) -> Object:
    """Return the patch that cordons and annotates the node; empty if it is already cordoned."""
    if is_cordoned(node):
        return {}
    return {"metadata": {"annotations": {annotation: value}}, "spec": {"unschedulable": True}}


def uncordon(node: Object, annotation: str) -> Object:
    """Return the patch that undoes ``cordon``; empty if the annotation is missing.

    A cordon of another manager is kept, and only the annotation is removed.
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
