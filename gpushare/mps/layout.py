"""Paths of the MPS files on a node. Nothing here touches a disk.

<state>/<GPU UUID>/pipe     sockets of the control daemon and its servers
<state>/<GPU UUID>/log      logs of the control daemon and its servers
<state>/<GPU UUID>/up       locked while the control daemon answers
<shm>                       shared memory of control daemons, servers and programs
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gpushare.contract import MPS_INSIDE, MPS_SHM, MPS_STATE, SHM


class MpsDirs(NamedTuple):
    """Directories of state and shared memory, the same on the node and in the agent's container."""

    state: Path = Path(MPS_STATE)
    shm: Path = Path(MPS_SHM)


def pipes_of(state: Path, uuid: str) -> Path:
    """The pipe directory of a GPU."""
    return state / uuid / "pipe"


def logs_of(state: Path, uuid: str) -> Path:
    """The log directory of a GPU."""
    return state / uuid / "log"


def ready_lock_of(state: Path, uuid: str) -> Path:
    """The file that is locked while the GPU's control daemon answers."""
    return state / uuid / "up"


def mounted(folders: MpsDirs, uuid: str) -> Mapping[str, str]:
    """The mounts of a container on this GPU: path in the container to path on the node."""
    return {MPS_INSIDE: str(pipes_of(folders.state, uuid)), SHM: str(folders.shm)}
