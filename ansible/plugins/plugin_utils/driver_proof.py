"""Whether the driver of a host works, and whether its node offers its GPUs again. Pure.

What belongs here: decisions from the report of a host and from a Node object. What does not: reading them,
and when to do so (the role nvidia_driver).
"""

from __future__ import annotations

from typing import Any, Final

from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.contract import (
    RESOURCE_MEM,
    RESOURCE_WHOLE_GPU,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.model.quantity import parse_quantity
from ansible_collections.gpushare.nodes.plugins.plugin_utils.node_mode import shares
from ansible_collections.gpushare.nodes.plugins.plugin_utils.pci_cards import of_host

Object = dict[str, Any]

_FABRIC_BOARDS: Final = frozenset(("2901", "2909", "2920", "29bc", "3182"))
"""GPUs of HGX and DGX B100, B200 and B300. Their NVSwitches are not on the PCI bus of the host.

In the racks of GB200 and GB300, the fabric manager runs on the switches.
"""
_FABRIC_UNIT: Final = "nvidia-fabricmanager"


def has_fabric(report: Object) -> bool:
    """Whether CUDA needs the fabric manager on this host; without it, CUDA fails with error 802."""
    return bool(report["nvswitches"]) or has_subnet_manager(report)


def has_subnet_manager(report: Object) -> bool:
    """Whether the fabric manager of this host also needs the subnet manager of NVLink, package nvlsm."""
    return any(gpu["device"] in _FABRIC_BOARDS for gpu in report["gpus"])


def not_working(report: Object, version: str, before: int) -> str:
    """Return why the driver does not work at ``version``, "" if it does.

    ``before`` is the number of GPUs on the PCI bus before the change. ``report`` is a deep report of
    host_report.
    """
    smi = report["asked"]["smi"]
    present = len(of_host(report["gpus"]))
    if present < before:
        return f"{present} of {before} GPUs are on the PCI bus: check `lspci -nn -d 10de:` and the power"
    if smi["error"]:
        return f"nvidia-smi failed ({smi['error']}): check `dmesg | grep -i nvrm` and `dkms status`"
    if smi["version"] != version:
        return f"driver {smi['version']} is loaded, not {version}: check `dkms status` and `modinfo nvidia`"
    if smi["cards"] != present:
        return f"the driver has {smi['cards']} of {present} GPUs: check `dmesg | grep -i nvrm`"
    return _no_fabric(report)


def _no_fabric(report: Object) -> str:
    state = report["services"].get(_FABRIC_UNIT, {}).get("state", "absent")
    if not has_fabric(report) or state == "active":
        return ""
    return f"service {_FABRIC_UNIT} is {state}, so CUDA fails with error 802: journalctl -u {_FABRIC_UNIT}"


def offer_before(node: Object, *, interrupted: bool) -> str:
    """Return the resource that the node offers in its mode, "" if it offers none.

    After an interrupted run the amount may already be 0; then the kubelet still has the resource in the
    capacity, if a device plugin had registered it.
    """
    labels, status = node["metadata"].get("labels") or {}, node.get("status") or {}
    resource = RESOURCE_MEM if shares(labels) else RESOURCE_WHOLE_GPU
    if interrupted and resource in (status.get("capacity") or {}):
        return resource
    return resource if _offers(status, resource) else ""


def not_back(node: Object, boot_id: str, resource: str) -> str:
    """Return why the node is not back after a boot, "" if it is.

    Until its kubelet has reported the ID of that boot, the status is from before. ``resource`` is what it
    must offer again, "" for nothing.
    """
    name, status = node["metadata"]["name"], node.get("status") or {}
    reported = (status.get("nodeInfo") or {}).get("bootID") or boot_id
    ready = any(
        each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or []
    )
    if reported != boot_id:
        return f"the kubelet of node {name} has not reported since the reboot: journalctl -u kubelet"
    if not ready:
        return f"node {name} is not Ready: kubectl describe node {name}"
    if resource and not _offers(status, resource):
        return f"node {name} does not offer {resource} again: check the pod and the log of its device plugin"
    return ""


def _offers(status: Object, resource: str) -> bool:
    return parse_quantity((status.get("allocatable") or {}).get(resource, 0)) > 0
