"""What a test says about a node with a real kubelet, and where that node keeps things.

What belongs here: the specification, and names and paths computed from it. What does not: the texts
of files (``testbed.kubelets.files``) and doing anything.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpushare.errors import ConfigError
from testbed.system import cgroups

RUNC = "runc"
NVIDIA = "nvidia"
KUBELET_PORT = 10250
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?")
_DISK = ("/etc/", "/var/")
_MEMORY = ("/var/run/", "/var/lock/")


@dataclass(frozen=True)
class KubeletSpec:
    """One node with a real kubelet.

    ``runtime`` is "runc", or "nvidia" for the real nvidia-container-runtime in CDI mode as the default
    runtime. ``files`` are on the node's disk before its first boot: absolute path under /etc or /var
    to text, such as a CDI spec in /etc/cdi. ``config`` replaces fields of the KubeletConfiguration.
    With ``services`` the node runs kube-proxy: its pods reach Services, the API server's among them, and
    node ports are open on it.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    runtime: str = RUNC
    files: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    services: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"node name {self.name!r} is not 1 to 40 of a-z, 0-9, '.' and '-'")
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
        return ["kubelet", "containerd", "containerd-shim-runc-v2", "ctr", *nvidia, *proxy]


@dataclass(frozen=True)
class Subnet:
    """The addresses of one node and its pods: a /24 of what is set aside for benchmarks (RFC 2544)."""

    number: int

    @property
    def cidr(self) -> str:
        """All of them."""
        return f"198.19.{self.number}.0/24"

    @property
    def host(self) -> str:
        """This machine, as the node sees it."""
        return f"198.19.{self.number}.1"

    @property
    def node(self) -> str:
        """The node."""
        return f"198.19.{self.number}.2"

    @property
    def gateway(self) -> str:
        """The node, as its pods see it."""
        return f"198.19.{self.number}.3"

    @property
    def first_pod(self) -> str:
        """The lowest address of a pod."""
        return f"198.19.{self.number}.10"


@dataclass(frozen=True)
class Place:
    """Where one node is on this machine: ``bed`` is its bed's folder, ``data`` that of the bed's data."""

    name: str
    bed: Path
    data: Path

    @property
    def folder(self) -> Path:
        """Everything of the node that outlives its processes."""
        return self.data / "nodes" / self.name

    @property
    def disk(self) -> Path:
        """What the node finds under the same paths after a reboot: ``etc`` and ``var``."""
        return self.folder / "disk"

    @property
    def group(self) -> str:
        """Name of its control group in every hierarchy."""
        return f"{cgroups.prefix_of(self.bed)}{self.name}"

    @property
    def device(self) -> str:
        """Name of the network device that leads to it; the kernel takes 15 characters."""
        return f"gpus-{hashlib.sha256(self.group.encode()).hexdigest()[:8]}"

    @property
    def first_subnet(self) -> int:
        """Number of the subnet to try first: another one for each node, so that it is free after a reboot."""
        return int(self.device[-2:], 16)

    def on_disk(self, inside: str) -> Path:
        """Return where a file of the node's /etc or /var is before it boots."""
        return self.disk / inside.lstrip("/")
