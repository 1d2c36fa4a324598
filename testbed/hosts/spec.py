"""The specification of hosts, and their names and addresses.

What belongs here: plain values. What does not: files of a host (``files``), commands (``wiring``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from testbed.hosts.base import DEBIAN, HostBase

BRIDGE: Final = "br0"
GATEWAY: Final = "203.0.113.1"
"""Address of the bridge in the network of the hosts: reserved for documentation (RFC 5737)."""
MACHINE: Final = "203.0.113.254"
"""Address of this machine in that network, if it is connected."""
PACKAGES: Final = "/srv/apt"
"""Folder of the package repository on a host."""
_FIRST: Final = 11


@dataclass(frozen=True)
class HostGpu:
    """One PCI function of NVIDIA in a simulated slot; IDs without ``0x``."""

    slot: str
    device: str
    device_class: str = "030200"
    subsystem: str = "0000"
    numa_node: int = -1


T4: Final = "1eb8"
V100: Final = "1db6"


@dataclass(frozen=True)
class HostSpec:
    """One host: its groups in the inventory, its GPUs, and its files.

    ``binds`` maps paths in the host to paths on this machine, mounted read-only; ``files`` maps paths to
    texts, written to its disk before the first boot. With ``containers``, services of the host may run
    containers: containerd's folder is on a file system of this machine, cgroups are writable, and kernel
    settings have the values that a kubelet requires.
    """

    name: str
    groups: tuple[str, ...]
    cards: tuple[HostGpu, ...] = ()
    base: HostBase = DEBIAN
    binds: Mapping[str, Path] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    containers: bool = False


HOSTS: Final = (
    HostSpec("cp-1", ("kube_control_plane",)),
    HostSpec(
        "gpu-1",
        ("kube_node", "gpu_nodes"),
        (HostGpu("0000:3b:00.0", T4, subsystem="12a2", numa_node=0),),
    ),
    HostSpec(
        "gpu-2",
        ("kube_node", "gpu_nodes"),
        (
            HostGpu("0000:3b:00.0", V100, subsystem="124a", numa_node=0),
            HostGpu("0000:af:00.0", V100, subsystem="124a", numa_node=1),
        ),
    ),
)
"""The hosts of all molecule scenarios."""


def addresses(hosts: tuple[HostSpec, ...]) -> dict[str, str]:
    """Return the address of each host by its name."""
    prefix = GATEWAY.rpartition(".")[0]
    return {host.name: f"{prefix}.{number}" for number, host in enumerate(hosts, _FIRST)}
