"""Which drivers serve a GPU: branches and kernel modules by architecture. Pure.

What belongs here: the facts of NVIDIA, and whether a driver serves all GPUs of a host. What does not: names
of GPUs (``pci_cards``), and what a host has or gets (``driver_plan``).

Sources, read on 2026-11-28:

- Last branches: "Last Driver Support" in the matrix of toolkits, drivers and architectures of NVIDIA's
  documentation of data-centre drivers (docs.nvidia.com/datacenter/tesla/drivers, v580).
- First branches: the first CUDA of an architecture in that matrix, and the oldest driver of that CUDA in its
  release notes (11.0: 450.36.06; 11.8: 520.61.05; 12.8: 570.26; 12.9, which added compute capability 10.3:
  575.51.03).
- Modules: page "Kernel Modules" of the Driver Installation Guide 610 (open ones from 515 on, for Turing and
  newer GPUs), section 4.1 of its releases 615 and 620 ("Proprietary Kernel Modules Removed"), and NVIDIA's
  announcement of R560 (2024-07-17: Grace Hopper and Blackwell need the open ones).
- Device IDs: the chips in the list of https://pci-ids.ucw.cz. From Turing on, they include all GPUs in the
  list of open-gpu-kernel-modules 595.45.04 of 2026-03-05.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from ansible_collections.gpushare.nodes.plugins.plugin_utils.pci_cards import card_name, of_host

Gpu = dict[str, Any]
Module = Literal["open", "proprietary"]
AUTO: Final = "auto"
_MODULES: Final[tuple[Module, ...]] = ("open", "proprietary")
"""In the order in which NVIDIA recommends them."""
_FIRST_OPEN: Final = 515
_FIRST_WITHOUT_PROPRIETARY: Final = 615


@dataclass(frozen=True, slots=True)
class Architecture:
    """GPUs with the same rules.

    ``devices`` are ranges of device IDs. ``oldest`` is the first branch, None if it is older than 418;
    ``newest`` the last one, None if there is none. ``module`` is the only kernel module that works, None if
    both do.
    """

    name: str
    devices: tuple[tuple[str, str], ...]
    oldest: int | None = None
    newest: int | None = None
    module: Module | None = None


ARCHITECTURES: Final = (
    Architecture("Kepler", (("1000", "103f"),), newest=470, module="proprietary"),
    Architecture("Pascal", (("15f0", "15ff"), ("1b00", "1d7f")), newest=580, module="proprietary"),
    Architecture("Maxwell", (("1340", "17ff"),), newest=580, module="proprietary"),
    Architecture("Volta", (("1d80", "1dff"),), newest=580, module="proprietary"),
    Architecture("Turing", (("1e00", "1fff"), ("2180", "21ff"))),
    Architecture("Ampere", (("2080", "20ff"), ("2200", "22ff"), ("2400", "25ff")), oldest=450),
    Architecture("Grace Hopper", (("2342", "2342"), ("2348", "2348")), oldest=520, module="open"),
    Architecture("Hopper", (("2300", "23ff"),), oldest=520),
    Architecture("Ada", (("2680", "28ff"),), oldest=520),
    Architecture("Blackwell", (("2900", "317f"),), oldest=570, module="open"),
    Architecture("Blackwell Ultra", (("3180", "31ff"),), oldest=575, module="open"),
)
"""The first entry with a device ID has it."""
_Known = tuple[Gpu, Architecture]


def architecture(device: str) -> Architecture | None:
    """Return the architecture of a device ID, None if it is unknown."""
    ranges = ((first, last, each) for each in ARCHITECTURES for first, last in each.devices)
    return next((each for first, last, each in ranges if first <= device <= last), None)


def kernel_module(gpus: Iterable[Gpu], version: str, wanted: str, first: str = "") -> str:
    """Return ``open`` or ``proprietary``.

    With ``wanted`` auto, it is the module that serves all GPUs: the ``first`` one if that does, else the open
    one if that does. If none does, ``unserved`` says why.
    """
    if wanted != AUTO:
        return wanted
    known = list(gpus)
    order = [*([first] if first else []), *_MODULES]
    return next((each for each in order if not unserved(known, version, each)), _MODULES[0])


def unserved(gpus: Iterable[Gpu], version: str, module: str) -> str:
    """Return why that driver does not serve all GPUs of the host, and the way out; "" if it does.

    GPUs of virtual machines and of an unknown architecture have no rules. ``module`` is "" if it is unknown.
    """
    ours = [(gpu, of) for gpu in of_host(gpus) if (of := architecture(gpu["device"]))]
    branch = int(version.partition(".")[0])
    faults = [*_apart(ours), *_of_branch(ours, branch), *_of_module(ours, branch, module)]
    return faults[0] if faults else ""


def _named(known: _Known) -> str:
    gpu, of = known
    return f"{card_name(gpu['device'], gpu['name'])} ({of.name})"


def _apart(gpus: list[_Known]) -> Iterator[str]:
    """Yield a problem for two GPUs that no driver serves together."""
    pairs = ((one, other) for one in gpus for other in gpus if _exclude(one[1], other[1]))
    for one, other in pairs:
        yield (
            f"no driver serves both {_named(one)}, which needs {_needs(one[1])}, and {_named(other)}, which "
            f"needs {_needs(other[1])}: move one of them to another host"
        )


def _exclude(older: Architecture, newer: Architecture) -> bool:
    branches = bool(older.newest and newer.oldest and newer.oldest > older.newest)
    return branches or (older.module == "proprietary" and newer.module == "open")


def _needs(of: Architecture) -> str:
    parts = (
        f"branch {of.oldest} or later" if of.oldest else "",
        f"branch {of.newest} or earlier" if of.newest else "",
        f"the {of.module} kernel module" if of.module else "",
    )
    return " and ".join(filter(None, parts))


def _of_branch(gpus: list[_Known], branch: int) -> Iterator[str]:
    for each in gpus:
        of = each[1]
        if of.newest and branch > of.newest:
            yield (
                f"branch {branch} does not serve {_named(each)}, whose last branch is {of.newest}: set "
                f"nvidia_driver_version to a version of branch {of.newest} for this host"
            )
        if of.oldest and branch < of.oldest:
            yield (
                f"branch {branch} does not serve {_named(each)}, whose first branch is {of.oldest}: set "
                "nvidia_driver_version to a newer version for this host"
            )


def _of_module(gpus: list[_Known], branch: int, module: str) -> Iterator[str]:
    for each in gpus:
        only = each[1].module
        if module and only and module != only:
            yield (
                f"the {module} kernel module does not serve {_named(each)}, which needs the {only} one: set "
                f"nvidia_driver_kernel_module_type to auto or {only} for this host"
            )
    if module == "proprietary" and branch >= _FIRST_WITHOUT_PROPRIETARY:
        yield (
            f"branch {branch} has no proprietary kernel module, which ended before branch "
            f"{_FIRST_WITHOUT_PROPRIETARY}: set nvidia_driver_kernel_module_type to auto or open"
        )
    if module == "open" and branch < _FIRST_OPEN:
        yield (
            f"branch {branch} has no open kernel module, which began with branch {_FIRST_OPEN}: set "
            "nvidia_driver_kernel_module_type to auto or proprietary"
        )
