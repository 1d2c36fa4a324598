"""Whether pods on this node still use shared GPUs: what the kubelet and the cgroups know, without the API.

The kubelet's checkpoint names the pods with devices, also ended ones. Those that still have a cgroup run.
"""

import asyncio
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from gpushare.adapters.cgroups import Cgroups
from gpushare.adapters.kubelet.checkpoint import CheckpointFile
from gpushare.contract import KUBELET_CHECKPOINT, MEM_SOCKET, RESOURCE_MEM
from gpushare.errors import KubeletError


@dataclass(frozen=True, slots=True)
class NodeFolders:
    """Of the kubelet: device plugins, and the socket of PodResources; and the host's cgroups."""

    device_plugins: Path
    pod_resources: Path
    cgroups: Path


def agent_runs(folders: NodeFolders) -> bool:
    """Whether the node agent may still allocate units here."""
    return _answers(folders.device_plugins, MEM_SOCKET)


def still_shared(folders: NodeFolders) -> str | None:
    """Why the GPUs of the node cannot be allocated as whole GPUs yet; None if they can.

    Raises KubeletError if that cannot be found out.
    """
    running = _running(folders)
    if not running:
        return None
    names = _names(folders.pod_resources) or sorted(running)
    return f"pods still use units of {RESOURCE_MEM} here: {', '.join(names)}"


def _answers(folder: Path, name: str) -> bool:
    """Whether a process listens on the socket; the file may be left from one that was killed."""
    try:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            # The path of a socket is limited to 107 bytes.
            client.connect(f"/proc/self/fd/{directory}/{name}")
    except OSError:
        return False
    finally:
        os.close(directory)
    return True


def _running(folders: NodeFolders) -> frozenset[str]:
    """The UIDs of pods with units that have not ended; of all with units if no cgroups are visible."""
    checkpoint = CheckpointFile(folders.device_plugins / KUBELET_CHECKPOINT).latest()
    entries = checkpoint or ()
    uids = frozenset(entry.pod_uid for entry in entries if entry.resource == RESOURCE_MEM)
    kept = Cgroups(folders.cgroups).kept(uids)
    return uids if kept is None else kept


def _names(pod_resources: Path) -> list[str]:
    """The names of the pods with units, for people; empty if the kubelet does not tell them."""
    try:
        from gpushare.adapters.kubelet.podresources import PodResources
    except ImportError:
        return []
    try:
        containers = asyncio.run(PodResources(pod_resources, timeout_s=5).list())
    except KubeletError:
        return []
    return sorted({f"{each.namespace}/{each.pod}" for each in containers if each.resource == RESOURCE_MEM})
