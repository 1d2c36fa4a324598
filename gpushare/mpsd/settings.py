"""The settings of the MPS daemon: what can be set, its unit and why."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class MpsSettings:
    """Made by the command line (``main``); every field has a flag.

    ``state`` is where the control daemons have their pipes and logs, ``shm`` the folder in memory that they
    share with programs. ``interval_s`` is how often all is looked at.
    """

    state: Path
    shm: Path
    interval_s: float
    ops_host: str
    ops_port: int
    log_level: str
