"""One bed's names on disk and on the network: files, ports, addresses.

What belongs here: pure path and URL arithmetic. What does not: writing the files
(``testbed.control_plane.credentials``) and the components' flags (``testbed.control_plane.commands``).
"""

from dataclasses import dataclass
from pathlib import Path

from testbed.system.ports import LOOPBACK

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
"""The parts that a bed itself runs, in the order of their dependence."""


@dataclass(frozen=True)
class Ports:
    """TCP ports of a bed, all on loopback."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int


@dataclass(frozen=True)
class Layout:
    """Where one bed keeps and serves things."""

    folder: Path
    data: Path
    ports: Ports

    @property
    def pki(self) -> Path:
        """Folder of certificates and keys."""
        return self.folder / "pki"

    @property
    def etcd_url(self) -> str:
        """Address of etcd's clients: plain HTTP, loopback only."""
        return f"http://{LOOPBACK}:{self.ports.etcd}"

    @property
    def peer_url(self) -> str:
        """Address of etcd's peers, of which there are none."""
        return f"http://{LOOPBACK}:{self.ports.etcd_peer}"

    @property
    def api_url(self) -> str:
        """Address of the API server."""
        return f"https://{LOOPBACK}:{self.ports.apiserver}"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, one JSON event a line."""
        return self.folder / "audit.jsonl"

    @property
    def audit_policy(self) -> Path:
        """The API server's audit policy."""
        return self.folder / "audit-policy.json"

    @property
    def scheduler_config(self) -> Path:
        """The scheduler's configuration or Policy."""
        return self.folder / "scheduler.conf"

    @property
    def kwok_config(self) -> Path:
        """Settings and stages of kwok."""
        return self.folder / "kwok.yaml"

    def kubeconfig(self, who: str) -> Path:
        """Return the kubeconfig file of ``who``: ``admin`` or a component."""
        return self.folder / f"{who}.kubeconfig"

    def log(self, process: str) -> Path:
        """Return the file that takes a process's stdout and stderr."""
        return self.folder / "logs" / f"{process}.log"

    def pid_file(self, process: str) -> Path:
        """Return the file that says which process runs under that name."""
        return self.folder / "pids" / f"{process}.json"
