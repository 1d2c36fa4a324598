"""Settings of the MPS daemon."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import click

from gpushare.contract import MPS_PORT, MPS_STATE, SHM
from gpushare.runtime.listener import ANY_ADDRESS
from gpushare.runtime.settings import Level, LogLevel, OpsHost, OpsPort, Seconds, setting

_FOLDER: Final = click.Path(file_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsSettings:
    """Settings of the MPS daemon."""

    state: Annotated[Path, _FOLDER] = setting(
        Path(MPS_STATE), help="Directory for the pipes and logs of the control daemons."
    )
    shm: Annotated[Path, _FOLDER] = setting(
        Path(SHM), help="Directory of the shared memory of control daemons and programs."
    )
    interval_seconds: Seconds = setting(5.0, help="Seconds between health checks.")
    ops_host: OpsHost = ANY_ADDRESS
    ops_port: OpsPort = MPS_PORT
    log_level: Level = LogLevel.INFO
