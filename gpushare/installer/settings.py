"""Settings of the library installer."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class InstallerSettings:
    """Settings from the command line (``main``); every field has a flag.

    ``package`` is the directory of the libraries to install, None to remove them. ``folder`` is where
    the node has the versions, ``record`` the node agent's record, ``interval_s`` the seconds between checks.
    """

    package: Path | None
    folder: Path
    record: Path
    interval_s: float
    ops_host: str
    ops_port: int
    log_level: str
