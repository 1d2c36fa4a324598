"""``gpushare node-mode``: takes NVIDIA's plugin, where it is a static pod, off a node and back.

The kubelet runs what lies in its folder of static pods. ``evict`` moves the plugin's manifest out of
it, ``recover`` back into it: what the original's DaemonSets device-plugin-evict-ds and
device-plugin-recover-ds do. A manifest exists in at least one of the two folders at every moment.
"""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from gpushare.adapters.files import read_file, replace_file
from gpushare.errors import ConfigError

_MANIFEST: Final = "nvidia-device-plugin.yml"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def move(name: str, source: Path, target: Path) -> str:
    """Move the file from one folder to the other and tell what was done; a second call does nothing.

    The copy is written under a name with a leading dot first, which the kubelet overlooks. Raises
    ConfigError where a folder cannot be used, or where the target has a different file.
    """
    origin, goal = source / name, target / name
    content, kept = read_file(origin), read_file(goal)
    if content is None:
        return f"{goal} is in place" if kept is not None else f"there is no {origin}, nothing to do"
    if kept is None:
        replace_file(goal, content)
    elif kept != content:
        raise ConfigError(f"{goal} exists and differs from {origin}; remove one of them")
    try:
        origin.unlink()
    except OSError as error:
        raise ConfigError(f"cannot remove {origin}: {error.strerror}") from error
    return f"moved {origin} to {target}"


_FOLDER: Final = click.Path(file_okay=False, path_type=Path)


def _options(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--wait/--once", help="Stay until SIGTERM afterwards, as a DaemonSet's container must."),
        click.option("--name", default=_MANIFEST, help="File name of the plugin's manifest."),
        click.option(
            "--backup",
            type=_FOLDER,
            default="/etc/kubernetes/manifests-backup",
            help="Folder where the manifest is kept meanwhile.",
        ),
        click.option(
            "--manifests",
            type=_FOLDER,
            default="/etc/kubernetes/manifests",
            help="The kubelet's folder of static pods.",
        ),
    ):
        function = option(function)
    return function


@click.group("node-mode", context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
def command() -> None:
    """Switch a node between whole cards and sharing, where NVIDIA's plugin is a static pod."""


@command.command()
@_options
def evict(manifests: Path, backup: Path, **flags: Any) -> None:
    """Take NVIDIA's plugin off this node."""
    _run(manifests, backup, manifests=manifests, **flags)


@command.command()
@_options
def recover(manifests: Path, backup: Path, **flags: Any) -> None:
    """Bring NVIDIA's plugin back."""
    _run(backup, manifests, manifests=manifests, **flags)


def _run(source: Path, target: Path, *, manifests: Path, name: str, wait: bool) -> None:
    if not manifests.is_dir():
        raise ConfigError(f"{manifests} is no folder; name the kubelet's staticPodPath with --manifests")
    if wait:
        # Before the move, so that a signal which comes during it is not lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    click.echo(move(name, source, target))
    if wait:
        signal.sigwait(_SIGNALS)
