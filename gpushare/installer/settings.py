"""The installer's settings: what can be set, its unit and why."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class InstallerSettings:
    """Made by the command line (``main``); every field has a flag.

    ``package`` is the folder of what to keep in place, None where that is to go. ``folder`` is where
    versions are, ``record`` what the agent gave to whom. ``interval_s`` is how often all is looked at.
    """

    package: Path | None
    folder: Path
    record: Path
    interval_s: float
    ops_host: str
    ops_port: int
    log_level: str
