"""``gpushare isolation``: puts the library on a node, takes it off, and shows what is there."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from gpushare.contract import (
    AGENT_RECORD,
    DEVICE_PLUGIN_FOLDER,
    ISOLATION_INSTALLER_PORT,
    ISOLATION_LIBRARIES,
)
from gpushare.installer.settings import InstallerSettings
from gpushare.runtime.flags import SECONDS, daemon_options, run_daemon

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGED: Final = Path("/usr/local/lib/gpushare")
"""Where images have it."""
_PATH: Final = click.Path(path_type=Path)


def _node_options(function: F) -> F:
    for option in (
        click.option(
            "--record",
            type=_PATH,
            default=Path(DEVICE_PLUGIN_FOLDER) / AGENT_RECORD,
            help="The agent's record, which tells the versions that containers have.",
        ),
        click.option(
            "--folder", type=_PATH, default=Path(ISOLATION_LIBRARIES), help="Where the node has its versions."
        ),
    ):
        function = option(function)
    return function


def _staying_options(function: F) -> F:
    for option in (
        daemon_options(ISOLATION_INSTALLER_PORT, asks_api=False),
        click.option(
            "--interval-seconds", type=SECONDS, default=60.0, help="How often all is looked at, with --wait."
        ),
        click.option(
            "--wait/--once", help="Stay until SIGTERM and see to it, as a DaemonSet's container must."
        ),
    ):
        function = option(function)
    return function


@click.group("isolation", context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
def command() -> None:
    """Put the isolation library on this node and take it off."""


@command.command("install")
@click.option("--package", type=_PATH, default=_PACKAGED, help="Folder of the libraries and their checksums.")
@_node_options
@_staying_options
def install_command(**flags: Any) -> None:
    """Place the library, make it what new containers get; with --wait, remove what nobody uses."""
    if flags["wait"]:
        _stay("isolation install", flags)
        return
    from gpushare.installer.install import install  # noqa: PLC0415 - --help does without structlog

    _log(flags)
    click.echo(install(flags["package"], flags["folder"]))


@command.command("uninstall")
@click.option("--all", "regardless", is_flag=True, help="Versions that containers have too.")
@click.option(
    "--settle-seconds",
    type=click.FloatRange(min=0),
    default=10.0,
    help="How long a pod that is being started may take to be in the record.",
)
@_node_options
@_staying_options
def uninstall_command(**flags: Any) -> None:
    """Give new containers no library, and remove the versions that no container has."""
    if flags["wait"]:
        _stay("isolation uninstall", {**flags, "package": None})
        return
    from gpushare.installer.install import prune, withdraw  # noqa: PLC0415 - as above
    from gpushare.isolation.versions import in_use  # noqa: PLC0415 - as above

    _log(flags)
    withdraw(flags["folder"])
    time.sleep(flags["settle_seconds"])
    used = frozenset[str]() if flags["regardless"] else in_use(flags["record"])
    for version, reason in prune(flags["folder"], used).items():
        click.echo(f"{version}  stays: {reason}")


@command.command()
@_node_options
def status(folder: Path, record: Path) -> None:
    """Show the versions that are there, and why each stays."""
    from gpushare.isolation.versions import current, found, holds, in_use  # noqa: PLC0415 - as above

    versions = found(folder)
    kept = holds(versions, current(folder), in_use(record))
    for version in versions:
        click.echo(f"{version}  {kept.get(version, 'nobody has it')}")
    if not versions:
        click.echo(f"no version in {folder}")


def _stay(name: str, flags: Mapping[str, Any]) -> None:
    from gpushare.installer.daemon import run  # noqa: PLC0415 - as above

    run_daemon(name, lambda: settings_of(flags), run)


def settings_of(flags: Mapping[str, Any]) -> InstallerSettings:
    """Settings from parsed flags."""
    return InstallerSettings(
        package=flags["package"],
        folder=flags["folder"],
        record=flags["record"],
        interval_s=flags["interval_seconds"],
        ops_host=flags["ops_host"],
        ops_port=flags["ops_port"],
        log_level=flags["log_level"],
    )


def _log(flags: Mapping[str, Any]) -> None:
    from gpushare.runtime.logs import configure  # noqa: PLC0415 - as above

    configure(flags["log_level"])
