"""Paths, ports and URLs of one testbed.

What belongs here: pure functions. What does not: writing the files
(``testbed.control_plane.credentials``) and the flags of the components (``testbed.control_plane.commands``).
"""

from dataclasses import dataclass
from pathlib import Path

from devkit.ports import LOOPBACK

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
"""The components of a testbed; each depends on those before it."""


@dataclass(frozen=True)
class Ports:
    """TCP ports of a testbed, all on loopback."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int


@dataclass(frozen=True)
class BedLayout:
    """Files and URLs of one testbed."""

    folder: Path
    data: Path
    ports: Ports

    @property
    def pki(self) -> Path:
        """Folder of certificates and keys."""
        return self.folder / "pki"

    @property
    def etcd_url(self) -> str:
        """Client URL of etcd: plain HTTP, loopback only."""
        return f"http://{LOOPBACK}:{self.ports.etcd}"

    @property
    def peer_url(self) -> str:
        """Peer URL of etcd; there are no peers."""
        return f"http://{LOOPBACK}:{self.ports.etcd_peer}"

    @property
    def api_url(self) -> str:
        """URL of the API server."""
        return f"https://{LOOPBACK}:{self.ports.apiserver}"

    @property
    def audit_log(self) -> Path:
        """The audit log of the API server, one JSON event per line."""
        return self.folder / "audit.jsonl"

    @property
    def audit_policy(self) -> Path:
        """The audit policy of the API server."""
        return self.folder / "audit-policy.json"

    @property
    def scheduler_config(self) -> Path:
        """The configuration or Policy of the scheduler."""
        return self.folder / "scheduler.conf"

    @property
    def kwok_config(self) -> Path:
        """Settings and stages of kwok."""
        return self.folder / "kwok.yaml"

    def kubeconfig(self, who: str) -> Path:
        """Return the kubeconfig file of ``who``: ``admin`` or a component."""
        return self.folder / f"{who}.kubeconfig"

    def log(self, process: str) -> Path:
        """Return the log file with stdout and stderr of a process."""
        return self.folder / "logs" / f"{process}.log"

    def pid_file(self, process: str) -> Path:
        """Return the pid file of a process."""
        return self.folder / "pids" / f"{process}.json"
