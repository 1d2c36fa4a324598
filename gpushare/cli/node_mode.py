"""``gpushare node-mode``: stops NVIDIA's device plugin on a node, where it is a static pod, and restores it.

The kubelet runs every manifest in its folder of static pods. ``evict`` moves the manifest of the plugin out
of this folder, ``recover`` moves it back, as the DaemonSets device-plugin-evict-ds and
device-plugin-recover-ds of the Aliyun plugin do. The manifest always exists in at least one of the folders.
"""

import signal
from pathlib import Path
from typing import Any, Final

import click

from gpushare.adapters.files import read_file, replace_file
from gpushare.errors import ConfigError
from gpushare.runtime.flags import with_options

_MANIFEST: Final = "nvidia-device-plugin.yml"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def move(name: str, source: Path, target: Path) -> str:
    """Moves the file from one folder to the other and returns a message; a second call changes nothing.

    The copy first has a name with a leading dot, which the kubelet ignores. Raises ConfigError if a folder
    cannot be used, or if the target has a different file of that name.
    """
    origin, goal = source / name, target / name
    content, kept = read_file(origin), read_file(goal)
    if content is None:
        return f"{goal} is in place" if kept is not None else f"there is no {origin}; nothing to do"
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


_options = with_options(
    click.option(
        "--manifests",
        type=_FOLDER,
        default="/etc/kubernetes/manifests",
        help="The kubelet's folder of static pods.",
    ),
    click.option(
        "--backup",
        type=_FOLDER,
        default="/etc/kubernetes/manifests-backup",
        help="Folder for the manifest while the plugin is off.",
    ),
    click.option("--name", default=_MANIFEST, help="File name of the manifest of the plugin."),
    click.option("--wait/--once", help="Wait for SIGTERM afterwards, as the container of a DaemonSet must."),
)

_EXAMPLES: Final = """\b
Examples:
  gpushare node-mode evict
  gpushare node-mode recover"""
_EVICT_EXAMPLES: Final = """\b
Examples:
  gpushare node-mode evict
  gpushare node-mode evict --name nvidia-device-plugin.yml --wait"""
_RECOVER_EXAMPLES: Final = """\b
Examples:
  gpushare node-mode recover"""


@click.group(
    "node-mode",
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]},
    epilog=_EXAMPLES,
)
def command() -> None:
    """Switch a node between whole GPUs and sharing, where NVIDIA's plugin is a static pod."""


@command.command(epilog=_EVICT_EXAMPLES)
@_options
def evict(manifests: Path, backup: Path, **flags: Any) -> None:
    """Stop NVIDIA's plugin on this node."""
    _run(manifests, backup, manifests=manifests, **flags)


@command.command(epilog=_RECOVER_EXAMPLES)
@_options
def recover(manifests: Path, backup: Path, **flags: Any) -> None:
    """Restore NVIDIA's plugin."""
    _run(backup, manifests, manifests=manifests, **flags)


def _run(source: Path, target: Path, *, manifests: Path, name: str, wait: bool) -> None:
    if not manifests.is_dir():
        raise ConfigError(f"{manifests} is not a folder; set --manifests to the staticPodPath of the kubelet")
    if wait:
        # Before the move, so that a signal during the move is not lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    click.echo(move(name, source, target))
    if wait:
        signal.sigwait(_SIGNALS)
