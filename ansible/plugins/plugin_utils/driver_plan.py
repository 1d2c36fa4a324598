"""Plans the change of the driver of a host, and whether the node must leave service. Pure.

What belongs here: the decision, and its announcement for all nodes. What does not: reading and changing the
host (the tasks of the role nvidia_driver).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpu_drivers import kernel_module, unserved
from ansible_collections.gpushare.nodes.plugins.plugin_utils.package_versions import upstream

Object = dict[str, Any]

_OF_NVIDIA: Final = re.compile(r"nvidia|^cuda-drivers|^libcuda")
_KERNEL_MODULE: Final = re.compile(
    r"nvidia-(kernel|kernel-open|open-kernel)-dkms$|nvidia-dkms(-|$)|kmod-nvidia|linux-modules-nvidia-"
)
_DKMS: Final = re.compile(r"^nvidia-(kernel|kernel-open|open-kernel)-dkms$|^nvidia-dkms(-|$)")


def plan(found: Object, requested: Object) -> Object:
    """Plan the driver of a host.

    ``found`` has versions, "" for none: ``installed`` (the driver package), ``loaded`` (in the kernel) and
    ``on_disk`` (what modprobe would load); ``packages`` from package_facts of Ansible; the
    booleans ``nouveau`` (it uses the GPUs) and ``reboot_due`` (of an earlier change); and ``secure_boot``
    and ``gpus`` of host_report. ``requested`` has the version ``target``, ``reboot``, whether the host may
    reboot, ``kernel_module``, ``kernel_module_type`` and ``secure_boot``, as the variables of the role; the
    type is "" if other packages than those of the role decide. ``preferred_module`` is the one that auto
    takes if both serve, "" for the open one.

    Returns ``present``, the driver that packages would replace, whatever their names; ``changes``, whether
    packages change; ``needs_reboot``; ``out_of_service``, whether this run reboots the host; ``reasons`` of
    a reboot; ``module``, ``open`` or ``proprietary``, "" if other packages decide; ``replaces``, the packages
    of the other module; and ``refusal``, why the run must stop, "" if it may continue.
    """
    module = _module(found, requested)
    becomes = _other_module(found, requested, module)
    reasons = [*_reasons(found, requested["target"]), *([becomes] if becomes else [])]
    changes = found["installed"] != requested["target"] or bool(becomes)
    return {
        "present": "" if _foreign(found) else _present(found),
        "changes": changes,
        "needs_reboot": bool(reasons),
        "out_of_service": bool(reasons) and requested["reboot"],
        "reasons": reasons,
        "module": module,
        "replaces": other_modules(found["packages"], module) if module else [],
        "refusal": _foreign(found)
        or _not_served(found, requested, module)
        or _not_allowed(found, requested, changes=changes)
        or _other_not_allowed(found, requested, becomes)
        or (_unsigned(found, requested) if changes else ""),
    }


def other_modules(packages: Iterable[str], module: str) -> list[str]:
    """Return the installed packages that exclude that kernel module."""
    return sorted(name for name in packages if _KERNEL_MODULE.match(name) and _kind(name) != module)


def stale_modules(packages: Mapping[str, Sequence[Object]], version: str) -> list[str]:
    """Return the installed DKMS packages of other drivers than ``version``.

    Debian and NVIDIA have different names for the open module. Where these packages do not exclude each
    other, both would stay, and DKMS would build both.
    """
    return sorted(
        name
        for name, entries in packages.items()
        if _DKMS.search(name) and version not in {upstream(str(each["version"])) for each in entries}
    )


def _kind(package: str) -> str:
    return "open" if "open" in package else "proprietary"


def _module(found: Object, requested: Object) -> str:
    """Return the kernel module to install. A driver that keeps its version keeps a module that serves."""
    kept = _present_module(found) if found["installed"] == requested["target"] else ""
    first = kept or requested["preferred_module"]
    return kernel_module(found["gpus"], requested["target"], requested["kernel_module_type"], first)


def _present_module(found: Object) -> str:
    """Return the kernel module of the host.

    The packages of the two modules exclude each other. If both are there, as for several kernels, none is
    taken as that of the host.
    """
    there = {_kind(name) for name in found["packages"] if _KERNEL_MODULE.match(name)}
    return there.pop() if len(there) == 1 else ""


def _other_module(found: Object, requested: Object, module: str) -> str:
    """Return how the kernel module of a driver that keeps its version changes, "" if it does not."""
    present = _present_module(found)
    if not module or found["installed"] != requested["target"] or present in ("", module):
        return ""
    return f"the {present} kernel module becomes the {module} one"


def _not_served(found: Object, requested: Object, module: str) -> str:
    fault = unserved(found["gpus"], requested["target"], module)
    return f"{fault}. Nothing was changed" if fault else ""


def _other_not_allowed(found: Object, requested: Object, becomes: str) -> str:
    if requested["reboot"] or not becomes:
        return ""
    kept = _present_module(found)
    keeps = f"; nvidia_driver_kernel_module_type: {kept} keeps the module"
    return (
        f"{becomes}. This change needs a reboot, and nvidia_driver_reboot is false, so nothing was changed. "
        "Playbook upgrade_driver drains the node, changes the module, reboots and uncordons, one node at a "
        f"time{'' if unserved(found['gpus'], requested['target'], kept) else keeps}"
    )


def announcement(nodes: Mapping[str, Object], refusals: Mapping[str, str], total: int) -> str:
    """Return the announcement for ``nodes``, name to plan, of ``total`` GPU nodes."""
    leaving = {name: each["reasons"] for name, each in nodes.items() if each["out_of_service"]}
    waiting = {
        name: each["reasons"]
        for name, each in nodes.items()
        if each["needs_reboot"] and not each["out_of_service"] and name not in refusals
    }
    lines = [
        f"This run takes {0 if refusals else len(leaving)} of {total} GPU nodes out of service.",
        *([] if refusals else _listed("leaves service", leaving)),
        *_listed("needs a reboot, and nvidia_driver_reboot is false", waiting),
        *(["It stops before any change:"] if refusals else []),
        *refusals.values(),
    ]
    return "\n".join(lines)


def _listed(what: str, nodes: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, reasons in nodes.items():
        yield f"{name} {what}: {', '.join(reasons)}"


def _reasons(found: Object, target: str) -> Iterator[str]:
    """Yield reasons for a reboot to load ``target``. A first driver needs none."""
    present = _present(found)
    if present not in ("", target):
        yield f"driver {present} becomes {target}"
    elif found["loaded"] not in ("", target):
        yield f"driver {found['loaded']} is loaded, {target} is installed"
    elif found["reboot_due"]:
        yield f"driver {target} needs a reboot"
    if found["nouveau"]:
        yield "nouveau uses the GPUs"


def _present(found: Object) -> str:
    """Return the driver that a change of packages would replace, from any source."""
    version: str = found["installed"] or found["loaded"] or found["on_disk"]
    return version


def _foreign(found: Object) -> str:
    present = _present(found)
    if found["installed"] or not present or present in _packaged(found["packages"]):
        return ""
    where = "loaded" if found["loaded"] else "on disk"
    return (
        f"driver {present} is {where}, but not from a package of this host (its source may be a cloud image, "
        "the driver container of the GPU Operator or an installer). Packages would conflict with it, so "
        "nothing was changed. Keep this driver with nvidia_driver_state: unmanaged, or remove it, reboot and "
        "run again"
    )


def _unsigned(found: Object, requested: Object) -> str:
    """With Secure Boot, the kernel loads only modules that are signed with a key that the firmware trusts."""
    boot = found["secure_boot"]
    ignored = requested["secure_boot"] == "ignore" or requested["kernel_module"] != "dkms"
    if ignored or not boot["enabled"] or boot["module_key"]:
        return ""
    return (
        "Secure Boot is enabled, and the firmware trusts no key of DKMS, so the kernel would not load the "
        "module that DKMS builds, and nothing was changed. Enroll the key: install dkms and mokutil, run "
        "`dkms generate_mok` and `mokutil --import /var/lib/dkms/mok.pub` (on Ubuntu "
        "`update-secureboot-policy --enroll-key`), reboot and confirm on the console. Or disable Secure "
        "Boot, use nvidia_driver_kernel_module: precompiled where the distribution signs the modules, or set "
        "nvidia_driver_secure_boot: ignore if your modules are signed otherwise"
    )


def _packaged(packages: Mapping[str, Sequence[Object]]) -> set[str]:
    """Return the versions of all NVIDIA packages; their names differ between repositories."""
    named = (entries for name, entries in packages.items() if _OF_NVIDIA.search(name))
    return {upstream(str(entry["version"])) for entries in named for entry in entries}


def _not_allowed(found: Object, requested: Object, *, changes: bool) -> str:
    present = _present(found)
    if requested["reboot"] or not changes or present in ("", requested["target"]):
        return ""
    return (
        f"{present} is installed and {requested['target']} is requested. A change of the driver needs a "
        "reboot, and nvidia_driver_reboot is false, so nothing was changed. Playbook upgrade_driver drains "
        "the node, changes the driver, reboots and uncordons, one node at a time; "
        f"nvidia_driver_version: {present} keeps the driver"
    )
