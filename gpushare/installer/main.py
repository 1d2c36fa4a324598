"""``gpushare isolation``: command line of the library installer."""

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import click

from gpushare.installer.settings import InstallerSettings, InstallSettings, NodeSettings
from gpushare.runtime.flags import run_daemon
from gpushare.runtime.settings import settings_command

_SETTLE_S: Final = 10.0
"""Containers that are starting are in the record by then."""
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

_wait_option = click.option(
    "--wait/--once", help="Keep running and checking until SIGTERM, as in a DaemonSet."
)


@click.group(
    "isolation",
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]},
    epilog=_EXAMPLES,
)
def command() -> None:
    """Install the isolation library on this node, or remove it."""


@settings_command(InstallSettings, name="install", epilog=_INSTALL_EXAMPLES)
@_wait_option
def install_command(settings: InstallSettings, *, wait: bool) -> None:
    """Install the library for new containers.

    With --wait, also repair it, and remove versions that no container uses.
    """
    if wait:
        _run_daemon("isolation install", settings, settings.package)
        return
    from gpushare.installer.install import install

    _configure_logs(settings)
    click.echo(install(settings.package, settings.folder))


@settings_command(InstallerSettings, name="uninstall", epilog=_UNINSTALL_EXAMPLES)
@click.option("--all", "remove_all", is_flag=True, help="Also remove versions that containers use.")
@_wait_option
def uninstall_command(settings: InstallerSettings, *, remove_all: bool, wait: bool) -> None:
    """Disable the library for new containers.

    Also removes the versions that no container uses.
    """
    if wait:
        _run_daemon("isolation uninstall", settings, None)
        return
    _configure_logs(settings)
    for version, reason in uninstall(settings, remove_all=remove_all).items():
        click.echo(f"{version}  retained: {reason}")


def uninstall(settings: NodeSettings, *, remove_all: bool, settle_s: float = _SETTLE_S) -> Mapping[str, str]:
    """Disable the library and remove its versions; the retained ones, with the reason of each."""
    from gpushare.installer.install import prune, withdraw
    from gpushare.isolation.versions import versions_in_use

    withdraw(settings.folder)
    time.sleep(settle_s)
    used = frozenset[str]() if remove_all else versions_in_use(settings.record)
    return prune(settings.folder, used)


@settings_command(NodeSettings, name="status", epilog=_STATUS_EXAMPLES)
def status(settings: NodeSettings) -> None:
    """Show the installed versions and why each is retained."""
    from gpushare.isolation import versions as library

    versions = library.installed_versions(settings.folder)
    used = library.versions_in_use(settings.record)
    reasons = library.retained_versions(versions, library.current_version(settings.folder), used)
    for version in versions:
        click.echo(f"{version}  {reasons.get(version, 'unused')}")
    if not versions:
        click.echo(f"no version in {settings.folder}")


for _each in (install_command, uninstall_command, status):
    command.add_command(_each)


def _run_daemon(name: str, settings: InstallerSettings, package: Path | None) -> None:
    from gpushare.installer.daemon import run

    run_daemon(name, settings, partial(run, package=package))


def _configure_logs(settings: InstallerSettings) -> None:
    from gpushare.runtime.logs import configure

    configure(settings.log_level)
