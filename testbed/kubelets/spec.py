"""The specification of a node with a real kubelet, and its names, paths and addresses.

What belongs here: values, and names and paths computed from them. What does not: the texts of files
(``testbed.kubelets.files``).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devkit.folders import PLAIN_NAME
from gpushare.errors import ConfigError
from testbed import cgroups

RUNC = "runc"
NVIDIA = "nvidia"
KUBELET_PORT = 10250
_DISK = ("/etc/", "/var/")
_MEMORY = ("/var/run/", "/var/lock/")


@dataclass(frozen=True)
class KubeletSpec:
    """One node with a real kubelet.

    ``runtime`` is "runc", or "nvidia" for the real nvidia-container-runtime in CDI mode as the default
    runtime. ``files`` are written to the disk of the node before its first boot: absolute path under /etc
    or /var → text, such as a CDI spec in /etc/cdi. ``config`` replaces fields of the KubeletConfiguration.
    With ``services`` the node runs kube-proxy: its pods reach Services, including that of the API server,
    and its node ports are open. With ``host_pid`` the node has the PID namespace of this machine, in which a
    driver of this machine reports processes.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    runtime: str = RUNC
    files: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    services: bool = False
    host_pid: bool = False

    def __post_init__(self) -> None:
        if not PLAIN_NAME.fullmatch(self.name):
            raise ConfigError(f"node name {self.name!r} is invalid: use 1 to 40 of a-z, 0-9, '.' and '-'")
        if self.runtime not in (RUNC, NVIDIA):
            raise ConfigError(f"runtime {self.runtime!r} is unknown: use {RUNC!r} or {NVIDIA!r}")
        for path in self.files:
            if not path.startswith(_DISK) or path.startswith(_MEMORY) or ".." in Path(path).parts:
                raise ConfigError(f"file {path!r} is not on the node's disk: use a path in /etc or /var")

    @property
    def tools(self) -> list[str]:
        """Names of the programs in ``testbed.programs.binaries`` that the node runs."""
        nvidia = ["nvidia-container-runtime"] if self.runtime == NVIDIA else []
        proxy = ["kube-proxy"] if self.services else []
        return ["kubelet", "containerd", "containerd-shim-runc-v2", RUNC, "ctr", *nvidia, *proxy]


@dataclass(frozen=True)
class Subnet:
    """The addresses of one node and its pods: a /24 of the range for benchmarks (RFC 2544)."""

    number: int

    @property
    def cidr(self) -> str:
        """The whole range."""
        return f"198.19.{self.number}.0/24"

    @property
    def host(self) -> str:
        """Address of this machine in the network of the node."""
        return f"198.19.{self.number}.1"

    @property
    def node(self) -> str:
        """Address of the node."""
        return f"198.19.{self.number}.2"

    @property
    def gateway(self) -> str:
        """Address of the node in the pod network."""
        return f"198.19.{self.number}.3"

    @property
    def first_pod(self) -> str:
        """The first address of the pods."""
        return f"198.19.{self.number}.10"


@dataclass(frozen=True)
class KubeletLayout:
    """Folders and names of one node on this machine, from the folder and the data folder of the testbed."""

    name: str
    bed: Path
    data: Path

    @property
    def folder(self) -> Path:
        """Folder of the node on this machine."""
        return self.data / "nodes" / self.name

    @property
    def disk(self) -> Path:
        """The disk of the node, which survives a reboot: ``etc`` and ``var``."""
        return self.folder / "disk"

    @property
    def group(self) -> str:
        """Name of its cgroup in every hierarchy."""
        return f"{cgroups.prefix_of(self.bed)}{self.name}"

    @property
    def device(self) -> str:
        """Name of its network device on this machine; the kernel allows 15 characters."""
        return f"gpus-{hashlib.sha256(self.group.encode()).hexdigest()[:8]}"

    @property
    def first_subnet(self) -> int:
        """Number of the subnet to try first; it differs by node, so that it is still free after a reboot."""
        return int(self.device[-2:], 16)

    def on_disk(self, inside: str) -> Path:
        """Return the path on this machine of a file in /etc or /var of the node, before it boots."""
        return self.disk / inside.lstrip("/")
