"""Settings of the commands that install the isolation library on a node, or remove it."""

from dataclasses import dataclass
from pathlib import Path

from gpushare.contract import (
    AGENT_RECORD,
    DEVICE_PLUGIN_FOLDER,
    ISOLATION_INSTALLER_PORT,
    ISOLATION_LIBRARIES,
)
from gpushare.runtime.listener import ANY_ADDRESS
from gpushare.runtime.settings import Level, LogLevel, OpsHost, OpsPort, Seconds, setting

_PACKAGED = Path("/usr/local/lib/gpushare")
"""Path in the images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Where a node has the library."""

    folder: Path = setting(Path(ISOLATION_LIBRARIES), help="Directory of the versions on the node.")
    record: Path = setting(
        Path(DEVICE_PLUGIN_FOLDER) / AGENT_RECORD,
        help="The node agent's record, which has the versions that containers use.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallerSettings(NodeSettings):
    """Settings of the installer, which may run as a daemon."""

    interval_seconds: Seconds = setting(60.0, help="Seconds between checks, with --wait.")
    ops_host: OpsHost = ANY_ADDRESS
    ops_port: OpsPort = ISOLATION_INSTALLER_PORT
    log_level: Level = LogLevel.INFO


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallSettings(InstallerSettings):
    """Settings of the installer that does not remove the library."""

    package: Path = setting(_PACKAGED, help="Directory of the libraries and their checksums.")
