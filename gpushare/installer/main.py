"""``gpushare isolation``: command line of the library installer."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from gpushare.contract import (
    AGENT_RECORD,
    DEVICE_PLUGIN_FOLDER,
    ISOLATION_INSTALLER_PORT,
    ISOLATION_LIBRARIES,
)
from gpushare.installer.settings import InstallerSettings
from gpushare.runtime.flags import SECONDS, FiniteRange, daemon_options, run_daemon, with_options

_PACKAGED: Final = Path("/usr/local/lib/gpushare")
"""Path in the images."""
_PATH: Final = click.Path(path_type=Path)
_EXAMPLES: Final = """\b
Examples:
  gpushare isolation install
  gpushare isolation status
  gpushare isolation uninstall"""
_INSTALL_EXAMPLES: Final = """\b
Examples:
  gpushare isolation install --package /usr/local/lib/gpushare
  gpushare isolation install --wait"""
_UNINSTALL_EXAMPLES: Final = """\b
Examples:
  gpushare isolation uninstall"""
_STATUS_EXAMPLES: Final = """\b
Examples:
  gpushare isolation status"""


_node_options = with_options(
    click.option(
        "--folder",
        type=_PATH,
        default=Path(ISOLATION_LIBRARIES),
        help="Directory of the versions on the node.",
    ),
    click.option(
        "--record",
        type=_PATH,
        default=Path(DEVICE_PLUGIN_FOLDER) / AGENT_RECORD,
        help="The node agent's record, which has the versions that containers use.",
    ),
)

_daemon_options = with_options(
    click.option("--wait/--once", help="Keep running and checking until SIGTERM, as in a DaemonSet."),
    click.option(
        "--interval-seconds", type=SECONDS, default=60.0, help="Seconds between checks, with --wait."
    ),
    daemon_options(ISOLATION_INSTALLER_PORT, uses_api=False),
)


@click.group(
    "isolation",
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]},
    epilog=_EXAMPLES,
)
def command() -> None:
    """Install the isolation library on this node, or remove it."""


@command.command("install", epilog=_INSTALL_EXAMPLES)
@click.option(
    "--package", type=_PATH, default=_PACKAGED, help="Directory of the libraries and their checksums."
)
@_node_options
@_daemon_options
def install_command(**flags: Any) -> None:
    """Install the library for new containers.

    With --wait, also repair it, and remove versions that no container uses.
    """
    if flags["wait"]:
        _run_daemon("isolation install", flags)
        return
    from gpushare.installer.install import install

    _configure_logs(flags)
    click.echo(install(flags["package"], flags["folder"]))


@command.command("uninstall", epilog=_UNINSTALL_EXAMPLES)
@click.option("--all", "remove_all", is_flag=True, help="Also remove versions that containers use.")
@click.option(
    "--settle-seconds",
    type=FiniteRange(min=0),
    default=10.0,
    help="Seconds to wait until starting containers are in the record.",
)
@_node_options
@_daemon_options
def uninstall_command(**flags: Any) -> None:
    """Disable the library for new containers.

    Also removes the versions that no container uses.
    """
    if flags["wait"]:
        _run_daemon("isolation uninstall", {**flags, "package": None})
        return
    from gpushare.installer.install import prune, withdraw
    from gpushare.isolation.versions import versions_in_use

    _configure_logs(flags)
    withdraw(flags["folder"])
    time.sleep(flags["settle_seconds"])
    used = frozenset[str]() if flags["remove_all"] else versions_in_use(flags["record"])
    for version, reason in prune(flags["folder"], used).items():
        click.echo(f"{version}  retained: {reason}")


@command.command(epilog=_STATUS_EXAMPLES)
@_node_options
def status(folder: Path, record: Path) -> None:
    """Show the installed versions and why each is retained."""
    from gpushare.isolation import versions as library

    versions = library.installed_versions(folder)
    used = library.versions_in_use(record)
    reasons = library.retained_versions(versions, library.current_version(folder), used)
    for version in versions:
        click.echo(f"{version}  {reasons.get(version, 'unused')}")
    if not versions:
        click.echo(f"no version in {folder}")


def _run_daemon(name: str, flags: Mapping[str, Any]) -> None:
    from gpushare.installer.daemon import run

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


def _configure_logs(flags: Mapping[str, Any]) -> None:
    from gpushare.runtime.logs import configure

    configure(flags["log_level"])
