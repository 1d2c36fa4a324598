"""``gpushare scheduler-manifest``: edits the static pod of kube-scheduler on a node of the control plane.

``install`` adds the extender to the configuration of the scheduler, ``restore`` removes it; the kubelet
restarts the pod. The edit is in ``kubescheduler.edit``, the order of the control planes in
``cli.installer_turns``. What belongs here: flags, the lock of the host, and the output.
"""

import difflib
import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from gpushare.adapters.control_plane import LocalHost
from gpushare.cli.installer_turns import in_turn
from gpushare.cli.scheduler_certificates import ClientCertificates, extender_problem
from gpushare.contract import EXTENDER_SERVER_NAME, TLS_CA, TLS_CERT, TLS_KEY
from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import DEFAULT_URL, DEFAULT_WEIGHT, ExtenderConfig, node_url
from gpushare.kubescheduler.edit import EditTimeouts, Probe, perform
from gpushare.kubescheduler.plan import (
    BACKUP,
    MANIFEST,
    Install,
    Paths,
    PendingEdit,
    changes,
    mounted_tls,
    plan,
)
from gpushare.kubescheduler.static_pod import FOLDER, PROGRAM
from gpushare.runtime.flags import with_options
from gpushare.runtime.program import CONTEXT

_HEALTHY_S: Final = 120
_SETTLE_S: Final = 5
_EXTENDER_S: Final = 30
_EXTENDER_AFTER_S: Final = 30
"""Upper limit, for an extender that answered before the edit."""
_EXAMPLES: Final = """\b
Examples:
  gpushare scheduler-manifest install --dry-run
  gpushare scheduler-manifest restore"""
_INSTALL_EXAMPLES: Final = """\b
Examples:
  gpushare scheduler-manifest install --dry-run
  gpushare scheduler-manifest install --address 10.0.0.10 --certificates /root/certificates"""
_RESTORE_EXAMPLES: Final = """\b
Examples:
  gpushare scheduler-manifest restore"""
_TLS_FILES: Final = ("ca_file", "cert_file", "key_file")

_common = with_options(
    click.option(
        "--root",
        default="/",
        type=click.Path(path_type=Path),
        help="Where the file system of the node is mounted.",
    ),
    click.option(
        "--manifest", default=MANIFEST, help="Path of the static pod of kube-scheduler, on the node."
    ),
    click.option("--backup", default=BACKUP, help="Path of the backup of the manifest, on the node."),
    click.option("--dry-run", is_flag=True, help="Show the changes without making them."),
    click.option(
        "--wait",
        default=_HEALTHY_S,
        metavar="SECONDS",
        type=click.IntRange(1),
        help="How long to wait until kube-scheduler is healthy; after that, or once it has ended 3 times, "
        "everything is restored.",
    ),
    click.option(
        "--settle",
        default=_SETTLE_S,
        metavar="SECONDS",
        type=click.IntRange(0),
        help="How long kube-scheduler must be healthy without a restart.",
    ),
    click.option(
        "--control-planes",
        type=click.IntRange(1),
        metavar="N",
        help="In a Job with N pods, one per control plane: edit one control plane after the other.",
    ),
)


@click.group("scheduler-manifest", context_settings={"show_default": True, **CONTEXT}, epilog=_EXAMPLES)
def command() -> None:
    """Configure a kube-scheduler that runs as a static pod to call the extender."""


@command.command(epilog=_INSTALL_EXAMPLES)
@click.option("--url", default=DEFAULT_URL, help="URL of the extender, as the scheduler reaches it.")
@click.option(
    "--address", metavar="IP", help="Use the NodePort of the extender on this address, instead of --url."
)
@click.option("--weight", default=DEFAULT_WEIGHT, help="Weight of the scores of the extender.")
@click.option("--ca-file", help=f"CA certificates that the scheduler trusts, for https; in {FOLDER}.")
@click.option("--cert-file", help=f"Client certificate of the scheduler; in {FOLDER}.")
@click.option("--key-file", help=f"Key of the client certificate; in {FOLDER}.")
@click.option("--server-name", help="Name in the certificate of the extender, if it differs from the URL.")
@click.option(
    "--certificates",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help=f"Copy the client certificate of the scheduler ({TLS_CA}, {TLS_CERT}, {TLS_KEY}) from this folder "
    f"to {FOLDER}, and use it with the server name {EXTENDER_SERVER_NAME}.",
)
@click.option(
    "--kubernetes-version",
    metavar="1.36",
    help="Version of the scheduler, if the tag of its image is not a version.",
)
@click.option(
    "--extender-wait",
    default=_EXTENDER_S,
    metavar="SECONDS",
    type=click.IntRange(0),
    help="How long to wait for the extender before the edit.",
)
@_common
def install(root: Path, manifest: str, backup: str, **flags: Any) -> None:
    """Add the extender to the configuration of the scheduler.

    Nothing is changed if the extender does not answer this node. The previous files are restored if the new
    scheduler does not become healthy or the extender stops answering.
    """
    host = LocalHost(root, click.echo)
    copied = _certificates(flags)
    extender = _extender(flags, copied)
    sources = copied.sources if copied else {}
    ask = partial(extender_problem, extender, lambda path: sources.get(path, host.at(path)))
    wait_s = flags["extender_wait"]
    copies = copied.content if copied else {}
    wanted = Install(extender, flags["kubernetes_version"] or "", copies=copies)
    probe = Probe(ask, wait_s, min(wait_s, _EXTENDER_AFTER_S))
    _run(host, Paths(manifest, backup), wanted, probe, flags)


@command.command(epilog=_RESTORE_EXAMPLES)
@_common
def restore(root: Path, manifest: str, backup: str, **flags: Any) -> None:
    """Remove the extender from the configuration of the scheduler.

    The previous files are restored if the scheduler does not become healthy.
    """
    _run(LocalHost(root, click.echo), Paths(manifest, backup), None, None, flags)


def _run(host: LocalHost, paths: Paths, install: Install | None, probe: Probe | None, flags: Any) -> None:
    """Edits the host when the earlier control planes are done, or shows the edit."""
    if flags["dry_run"]:
        _show(host, plan(host, paths, install))
        return
    timeouts = EditTimeouts(flags["wait"], flags["settle"])
    with in_turn(flags["control_planes"]), _locked(host, paths):
        perform(host, plan(host, paths, install), probe, timeouts)


@contextmanager
def _locked(host: LocalHost, paths: Paths) -> Iterator[None]:
    """Locks the host against a second edit; SIGTERM undoes an edit, like Ctrl-C.

    Raises ConfigError if another edit runs or there is no folder of manifests.
    """
    folder = host.at(paths.manifest).parent
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(
            f"cannot open {folder}: {error.strerror}; is {PROGRAM} a static pod here?"
        ) from error
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _lock(handle, paths)
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
        os.close(handle)


def _lock(handle: int, paths: Paths) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigError(f"another process edits {paths.manifest}; wait until it has finished") from error


def _certificates(flags: dict[str, Any]) -> ClientCertificates | None:
    folder = flags["certificates"]
    if folder is None:
        return None
    for name in _TLS_FILES:
        if flags[name]:
            raise ConfigError(f"--certificates and --{name.replace('_', '-')} exclude each other; keep one")
    return ClientCertificates.read(folder, flags["server_name"])


def _extender(flags: dict[str, Any], copied: ClientCertificates | None) -> ExtenderConfig:
    files = {name: flags[name] for name in (*_TLS_FILES, "server_name")}
    tls = copied.tls if copied else mounted_tls(**files)
    return ExtenderConfig(_url(flags, "https" if tls else "http"), weight=flags["weight"], tls=tls)


def _url(flags: dict[str, Any], scheme: str) -> str:
    address, url = flags["address"], flags["url"]
    if address and url != DEFAULT_URL:
        raise ConfigError("--address and --url exclude each other; keep one")
    if address:
        return node_url(address, scheme)
    return DEFAULT_URL.replace("http", scheme, 1) if url == DEFAULT_URL else str(url)


def _show(host: LocalHost, edit: PendingEdit) -> None:
    """Prints the changes of an edit as a diff."""
    found = list(changes(host, edit))
    for path, before, after in found:
        if before is None or after is None:
            click.echo(f"to write: {path}")
            continue
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm="")
        click.echo("\n".join(lines))
    if not found:
        click.echo(f"unchanged: {edit.paths.manifest}")
