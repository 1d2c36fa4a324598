"""NVIDIA GPUs on the PCI bus: their names by device ID, and which of them are of virtual machines. Pure.

The names are those of every data-centre model that gpushare knows, and of the TITANs. Hosts without a list of
PCI devices, or with an old one, have no names for their GPUs. What does not belong here: which of them are
data-centre GPUs (``gpushare.model.card_models``), and reading the bus (``module_utils.host_gpus``).

Source: the list of https://pci-ids.ucw.cz of 2026-08-22, where 2321 and 233a have the names that the
list of GPUs in NVIDIA's open-gpu-kernel-modules 595.45.04 gives them.
"""

from collections.abc import Iterable
from typing import Any, Final

CARDS: Final = {
    "1005": "GeForce GTX TITAN",
    "100c": "GeForce GTX TITAN Black",
    "15f7": "Tesla P100 PCIe 12GB",
    "15f8": "Tesla P100 PCIe 16GB",
    "15f9": "Tesla P100 SXM2 16GB",
    "15fc": "Tesla P100-DGXS-16GB",
    "17c2": "GeForce GTX TITAN X",
    "1b00": "TITAN X Pascal",
    "1b02": "TITAN Xp",
    "1b38": "Tesla P40",
    "1bb3": "Tesla P4",
    "1bb4": "Tesla P6",
    "1d81": "TITAN V",
    "1db1": "Tesla V100 SXM2 16GB",
    "1db2": "Tesla V100 DGXS 16GB",
    "1db3": "Tesla V100 FHHL 16GB",
    "1db4": "Tesla V100 PCIe 16GB",
    "1db5": "Tesla V100 SXM2 32GB",
    "1db6": "Tesla V100 PCIe 32GB",
    "1db7": "Tesla V100 DGXS 32GB",
    "1db8": "Tesla V100 SXM3 32GB",
    "1df5": "Tesla V100 SXM2 16GB",
    "1df6": "Tesla V100S PCIe 32GB",
    "1e02": "TITAN RTX",
    "1eb4": "T4G",
    "1eb8": "Tesla T4",
    "20b0": "A100 SXM4 40GB",
    "20b1": "A100 PCIe 40GB",
    "20b2": "A100 SXM4 80GB",
    "20b3": "A100-SXM-64GB",
    "20b5": "A100 PCIe 80GB",
    "20b7": "A30 PCIe",
    "20b8": "A100X",
    "20b9": "A30X",
    "20bb": "DRIVE A100 PROD",
    "20bd": "A800 SXM4 40GB",
    "20f0": "A100-PG506-207",
    "20f1": "A100 PCIe 40GB",
    "20f2": "A100-PG506-217",
    "20f3": "A800-SXM4-80GB",
    "20f5": "A800 80GB PCIe",
    "20f6": "A800 40GB PCIe",
    "2235": "A40",
    "2236": "A10",
    "2237": "A10G",
    "2238": "A10M",
    "230c": "H20 NVL16",
    "230e": "H20 NVL16",
    "2313": "H100 CNX",
    "2321": "H100 NVL",
    "2322": "H800 PCIe",
    "2324": "H800",
    "2329": "H20",
    "232c": "H20 HBM3e",
    "2330": "H100 SXM5 80GB",
    "2331": "H100 PCIe",
    "2335": "H200 SXM 141GB",
    "2336": "H100",
    "2337": "H100 SXM5 64GB",
    "2338": "H100 SXM5 96GB",
    "2339": "H100 SXM5 94GB",
    "233a": "H800 NVL",
    "233b": "H200 NVL",
    "233d": "H100 96GB",
    "2342": "GH200 120GB / 480GB",
    "2348": "GH200 144G HBM3e",
    "237e": "H100 GH3",
    "25b6": "A2 / A16",
    "26b5": "L40",
    "26b7": "L20",
    "26b8": "L40G",
    "26b9": "L40S",
    "26ba": "L20",
    "26f5": "L40 CNX",
    "27b6": "L2",
    "27b8": "L4",
    "2901": "B200",
    "2909": "HGX B200 168GB",
    "2920": "TS4 / B100",
    "2941": "HGX GB200",
    "29bc": "B100",
    "3182": "B300 SXM6 AC",
    "31a1": "GB300 MaxQ",
    "31c2": "GB300",
    "31c3": "GB300",
}


def is_of_virtual_machine(gpu: dict[str, Any]) -> bool:
    """Whether a GPU of a report is assigned to virtual machines: vfio-pci, or the variant of Grace Hopper."""
    return "vfio" in (gpu["driver"] or "")


def of_host(gpus: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the GPUs of a report that NVIDIA's driver of the host can use."""
    return [gpu for gpu in gpus if not is_of_virtual_machine(gpu)]


def in_mig_mode(gpus: Iterable[dict[str, Any]], slots: Iterable[str] | None) -> list[str]:
    """Return one sentence per partitioned GPU of a report. ``slots`` are theirs, None if they are unknown."""
    return [
        f"{card_name(gpu['device'], gpu['name'])} in slot {gpu['slot']} is in MIG mode, so the node agent "
        "does not share it: use it with NVIDIA's device plugin on a node of mode whole, or drain the node "
        f"and run nvidia-smi -i {gpu['slot']} -mig 0"
        for gpu in gpus
        if gpu["slot"] in (slots or ())
    ]


def card_name(device: str, known_as: str | None) -> str:
    """Return the name of a GPU, from its device ID or from the name that its host has."""
    return CARDS.get(device) or known_as or f"NVIDIA 10de:{device}"
