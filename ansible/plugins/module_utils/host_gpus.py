"""NVIDIA GPUs on the PCI bus of a host, and their driver in the kernel.

Runs on the target: standard library only, Python 2.7 to 3.x. What does not belong here: which models are
supported, and the output of nvidia-smi.

PCI: https://www.kernel.org/doc/html/latest/PCI/sysfs-pci.html; names: https://pci-ids.ucw.cz.
"""

from __future__ import absolute_import, division, print_function

import os

from ansible_collections.gpushare.nodes.plugins.module_utils.host_system import names_in, read_text

__metaclass__ = type

VENDOR = "10de"
_BUS = "sys/bus/pci/devices"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers. Audio, USB and NVSwitch functions of a GPU have other classes."""
_BRIDGE_CLASS = "0x0680"
_NEWER_THAN_NFORCE = 0x1000
"""NVIDIA's chipsets for mainboards have bridges of the same class, with lower device IDs."""
_ID_FILES = ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids")


def pci_gpus(root):
    """Return the GPUs by slot: ``slot``, ``device`` (4 hex digits), ``name`` or None, ``driver`` or None.

    ``name`` is from the host's list of PCI devices, None if it has no list or an older one.
    """
    slots = [slot for slot in names_in(root, _BUS) if _is_gpu(root, slot)]
    devices = dict((slot, _hex(root, slot, "device")) for slot in slots)
    names = device_names(root, set(devices.values())) if devices else {}
    return [
        {
            "slot": slot,
            "device": devices[slot],
            "name": names.get(devices[slot]),
            "driver": _driver(root, slot),
        }
        for slot in slots
    ]


def _is_gpu(root, slot):
    return _hex(root, slot, "vendor") == VENDOR and _class(root, slot).startswith(_DISPLAY_CLASSES)


def nvswitches(root):
    """Return the slots of NVSwitches, which connect the GPUs of HGX and DGX boards before Blackwell."""
    return [slot for slot in names_in(root, _BUS) if _is_nvswitch(root, slot)]


def _is_nvswitch(root, slot):
    if _hex(root, slot, "vendor") != VENDOR or not _class(root, slot).startswith(_BRIDGE_CLASS):
        return False
    return int(_hex(root, slot, "device") or "0", 16) >= _NEWER_THAN_NFORCE


def _class(root, slot):
    return (read_text(root, _BUS, slot, "class") or "").strip()


def _hex(root, slot, name):
    return (read_text(root, _BUS, slot, name) or "").strip().lower().replace("0x", "")


def _driver(root, slot):
    try:
        return os.path.basename(os.readlink(os.path.join(root, _BUS, slot, "driver")))
    except OSError:
        return None


def device_names(root, devices):
    """Return device to name from pci.ids: ``GP102 [TITAN Xp]`` becomes ``TITAN Xp``."""
    text = next((text for text in (read_text(root, path) for path in _ID_FILES) if text), "")
    names = {}
    of_vendor = False
    for line in text.splitlines():
        if line[:1] not in ("", "#", "\t"):
            if of_vendor:
                break
            of_vendor = line.startswith(VENDOR)
        elif of_vendor and line[:1] == "\t" and line[1:5] in devices:
            chip, bracket, name = line[5:].strip().partition("[")
            names[line[1:5]] = name.rstrip("]") if bracket else chip
    return names


def kernel_driver(root):
    """Return ``loaded``, the version of NVIDIA's module in the kernel or None, and ``nouveau``, a boolean."""
    version = read_text(root, "sys/module/nvidia/version")
    return {
        "loaded": version.strip() if version else None,
        "nouveau": os.path.exists(os.path.join(root, "sys/module/nouveau")),
    }
