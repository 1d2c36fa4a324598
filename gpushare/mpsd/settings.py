"""Settings of the MPS daemon."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class MpsSettings:
    """Settings from the command line (``main``); every field has a flag.

    ``state`` is the directory of the control daemons' pipes and logs, ``shm`` the directory of the shared
    memory of control daemons and programs, ``interval_s`` the seconds between health checks.
    """

    state: Path
    shm: Path
    interval_s: float
    ops_host: str
    ops_port: int
    log_level: str
