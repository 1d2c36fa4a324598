"""``gpushare node-mode``: stops NVIDIA's device plugin on a node, where it is a static pod, and restores it.

The kubelet runs every manifest in its folder of static pods. ``evict`` moves the manifest of the plugin out
of this folder, ``recover`` moves it back, as the DaemonSets device-plugin-evict-ds and
device-plugin-recover-ds of the Aliyun plugin do. The manifest always exists in at least one of the folders.

NVIDIA's plugin does not know the pods that share a GPU, and would allocate it a second time. So ``recover``
waits, or refuses, while such pods run.
"""

import signal
from pathlib import Path
from typing import Final

import click

from gpushare.adapters.files import read_file, replace_file
from gpushare.cli.shared_pods import NodeFolders, agent_runs, still_shared
from gpushare.contract import DEVICE_PLUGIN_FOLDER, NVIDIA_PLUGIN_MANIFEST, POD_RESOURCES_SOCKET
from gpushare.errors import ConfigError, KubeletError
from gpushare.runtime.flags import with_options

_LOOK_S: Final = 2.0
_CLEAN_LOOKS: Final = 2
_SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})


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
    click.option("--name", default=NVIDIA_PLUGIN_MANIFEST, help="File name of the manifest of the plugin."),
    click.option("--wait/--once", help="Wait for SIGTERM afterwards, as the container of a DaemonSet must."),
)
_recover_options = with_options(
    click.option(
        "--device-plugins",
        type=_FOLDER,
        default=DEVICE_PLUGIN_FOLDER,
        help="The kubelet's folder of device plugins, with its checkpoint.",
    ),
    click.option(
        "--pod-resources-socket",
        "pod_resources",
        type=click.Path(path_type=Path),
        default=POD_RESOURCES_SOCKET,
        help="Socket of the PodResources API, for the names of pods.",
    ),
    click.option("--cgroups", type=_FOLDER, default="/sys/fs/cgroup", help="The cgroups of the host."),
    click.option("--force", is_flag=True, help="Do not look for pods that share a GPU."),
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
  gpushare node-mode recover
  gpushare node-mode recover --wait"""


@click.group(
    "node-mode",
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]},
    epilog=_EXAMPLES,
)
def command() -> None:
    """Switch a node between whole GPUs and sharing, where NVIDIA's plugin is a static pod."""


@command.command(epilog=_EVICT_EXAMPLES)
@_options
def evict(manifests: Path, backup: Path, name: str, *, wait: bool) -> None:
    """Stop NVIDIA's plugin on this node."""
    _check(manifests)
    if wait:
        # Before the move, so that a signal during the move is not lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    click.echo(move(name, manifests, backup))
    if wait:
        signal.sigwait(_SIGNALS)


@command.command(epilog=_RECOVER_EXAMPLES)
@_options
@_recover_options
def recover(manifests: Path, backup: Path, name: str, *, wait: bool, force: bool, **folders: Path) -> None:
    """Restore NVIDIA's plugin, once no pod shares a GPU of this node.

    With --wait, the command waits for the pods; otherwise it refuses, and names them.
    """
    _check(manifests)
    if wait:
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    is_needed = not force and (backup / name).exists()
    if is_needed and not _given_back(NodeFolders(**folders), wait=wait):
        return
    click.echo(move(name, backup, manifests))
    if wait:
        signal.sigwait(_SIGNALS)


def _check(manifests: Path) -> None:
    if not manifests.is_dir():
        raise ConfigError(f"{manifests} is not a folder; set --manifests to the staticPodPath of the kubelet")


def _given_back(host: NodeFolders, *, wait: bool) -> bool:
    """Return True once no pod shares a GPU of the node, False after a signal.

    Raises ConfigError without ``wait``. A pod that the kubelet has just admitted has no cgroup for a moment,
    so one look is not enough.
    """
    told, clean = None, 0
    while clean < _CLEAN_LOOKS:
        reason = _reason(host, wait=wait)
        clean = 0 if reason else clean + 1
        if reason and not wait:
            raise ConfigError(f"{reason}; let the pods finish, delete them, or use --wait or --force")
        if reason and reason != told:
            click.echo(f"waiting: {reason}")
        told = reason
        if clean < _CLEAN_LOOKS and signal.sigtimedwait(_SIGNALS, _LOOK_S):
            return False
    return True


def _reason(host: NodeFolders, *, wait: bool) -> str | None:
    """Why the plugin is not restored yet.

    A DaemonSet starts as soon as the label changes, when the agent has not ended yet. A person calls the
    command later, and may have an agent that the label does not end.
    """
    if wait and agent_runs(host):
        return "the node agent still runs here"
    try:
        return still_shared(host)
    except KubeletError as error:
        return f"cannot tell whether pods share the GPUs of this node: {error}"
