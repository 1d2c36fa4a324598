"""Where MPS's files are on a node. Paths only: nothing here touches a disk.

<state>/<card>/pipe     what programs and the card's control daemon find each other by
<state>/<card>/log      what the control daemon and its servers tell
<state>/<card>/up       locked while the control daemon answers
<shm>                   the shared memory of control daemons, servers and programs
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gpushare.contract import MPS_INSIDE, MPS_SHM, MPS_STATE, SHM


class MpsDirs(NamedTuple):
    """Where both are, on the node and in the agent alike."""

    state: Path = Path(MPS_STATE)
    shm: Path = Path(MPS_SHM)


def pipes_of(state: Path, uuid: str) -> Path:
    """The folder of a card's pipes."""
    return state / uuid / "pipe"


def logs_of(state: Path, uuid: str) -> Path:
    """The folder of a card's logs."""
    return state / uuid / "log"


def ready_lock_of(state: Path, uuid: str) -> Path:
    """The file that is locked while the card's control daemon answers."""
    return state / uuid / "up"


def mounted(folders: MpsDirs, uuid: str) -> Mapping[str, str]:
    """What programs on a card need: folders of containers, and of the node."""
    return {MPS_INSIDE: str(pipes_of(folders.state, uuid)), SHM: str(folders.shm)}
