"""``gpushare scheduler-manifest``: edits the static pod of kube-scheduler on a node of the control plane.

``install`` adds the extender to the configuration of the scheduler, ``restore`` removes it; the kubelet
restarts the pod. The content of the edit is in ``kubescheduler.static_pod``, writing, waiting and restoring
in ``cli.scheduler_edit``, the order of the control planes in ``cli.installer_turns``.
"""

import difflib
import fcntl
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from gpushare.adapters.files import read_file
from gpushare.cli.installer_turns import in_turn
from gpushare.cli.scheduler_certificates import ClientCertificates, extender_problem
from gpushare.cli.scheduler_edit import (
    NOTHING,
    EditTimeouts,
    NodeFiles,
    PendingEdit,
    Probe,
    parse,
    perform,
    running,
)
from gpushare.contract import (
    EXTENDER_NODE_PORT,
    EXTENDER_PREFIX,
    EXTENDER_SERVER_NAME,
    TLS_CA,
    TLS_CERT,
    TLS_KEY,
)
from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import (
    DEFAULT_URL,
    DEFAULT_WEIGHT,
    ExtenderConfig,
    KubernetesVersion,
    Tls,
    parse_version,
)
from gpushare.kubescheduler.journal import Files, Journal, is_unproven, parse_journal
from gpushare.kubescheduler.static_pod import (
    FOLDER,
    PROGRAM,
    Object,
    base_of,
    config_file_of,
    installed,
    is_installed,
    removed,
    version_of,
)
from gpushare.runtime.flags import with_options
from gpushare.runtime.program import CONTEXT

_MANIFEST: Final = "/etc/kubernetes/manifests/kube-scheduler.yaml"
_BACKUP: Final = "/etc/kubernetes/manifests-backup/kube-scheduler.ori.yaml"
"""Not beside the manifest, where the kubelet would run it too."""
_HEALTHY_S: Final = 120
_SETTLE_S: Final = 5
_EXTENDER_S: Final = 30
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
        "--manifest", default=_MANIFEST, help="Path of the static pod of kube-scheduler, on the node."
    ),
    click.option("--backup", default=_BACKUP, help="Path of the backup of the manifest, on the node."),
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
@click.option("--key-file", help=f"Key of that certificate; in {FOLDER}.")
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
    node = NodeFiles(root, manifest, backup)
    copied = _certificates(flags)
    extender = _extender(flags, copied)
    sources = copied.sources if copied else {}

    def probe() -> str:
        return extender_problem(extender, lambda path: sources.get(path, node.at(path)))

    def after(text: str, pod: Object) -> Files:
        edit = installed(pod, extender, _version(pod, flags["kubernetes_version"]), _base(node, pod))
        manifest = text if edit.manifest == pod else _dump(edit.manifest)
        return Files(manifest, edit.config_file, edit.config_text)

    _run(node, after, probe, flags, copied.content if copied else NOTHING)


@command.command(epilog=_RESTORE_EXAMPLES)
@_common
def restore(root: Path, manifest: str, backup: str, **flags: Any) -> None:
    """Remove the extender from the configuration of the scheduler.

    The previous files are restored if the scheduler does not become healthy.
    """
    node = NodeFiles(root, manifest, backup)

    def after(text: str, pod: Object) -> Files:
        return Files(_restored(node, removed(pod)) if is_installed(pod) else text)

    _run(node, after, None, {"extender_wait": 0, **flags})


def _run(
    node: NodeFiles,
    after: Callable[[str, Object], Files],
    probe: Probe | None,
    flags: dict[str, Any],
    copies: Mapping[str, bytes] = NOTHING,
) -> None:
    """Edits the node when the earlier control planes are done, or shows the edit.

    ``copies`` are additional files by their path on the node.
    """
    if flags["dry_run"]:
        _show(_edit(node, after, copies))
        return
    timeouts = EditTimeouts(flags["wait"], flags["settle"], flags["extender_wait"])
    with in_turn(flags["control_planes"]), _locked(node):
        perform(_edit(node, after, copies), probe, timeouts)


def _edit(node: NodeFiles, after: Callable[[str, Object], Files], copies: Mapping[str, bytes]) -> PendingEdit:
    """The edit of the node. Raises ConfigError if it is not possible."""
    text, pod = _read_pod(node)
    path = config_file_of(pod)
    config = (node.text(path) if path else None) or ""
    now, wanted = Files(text, path, config), after(text, pod)
    journal = _journal(node, text, pod)
    return PendingEdit(
        node,
        now,
        before=journal.before if journal else now,
        after=wanted,
        processes=journal.processes if journal else running(text),
        is_unproven=journal is not None,
        keep=bool(wanted.config_file) and not is_installed(pod),
        copies=copies,
    )


def _journal(node: NodeFiles, manifest: str, pod: Object) -> Journal | None:
    """The journal of an interrupted run; None if there is none, or if the manifest was replaced since."""
    text = node.text(node.journal)
    journal = parse_journal(text, node.journal) if text else None
    if journal is None or not is_unproven(journal, manifest, is_installed=is_installed(pod)):
        return None
    click.echo(f"{node.journal}: an earlier run was interrupted", err=True)
    return journal


@contextmanager
def _locked(node: NodeFiles) -> Iterator[None]:
    """Locks the node against a second edit; SIGTERM undoes an edit, like Ctrl-C.

    Raises ConfigError if another edit runs or there is no folder of manifests.
    """
    folder = node.at(node.manifest).parent
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(
            f"cannot open {folder}: {error.strerror}; is {PROGRAM} a static pod here?"
        ) from error
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _lock(handle, node)
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
        os.close(handle)


def _lock(handle: int, node: NodeFiles) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigError(f"another process edits {node.manifest}; wait until it has finished") from error


def _restored(node: NodeFiles, pod: Object) -> str:
    """The backup byte for byte if it still describes this pod, else the edited pod."""
    kept = node.text(node.backup)
    return kept if kept is not None and parse(kept, node.backup) == pod else _dump(pod)


def _certificates(flags: dict[str, Any]) -> ClientCertificates | None:
    folder = flags["certificates"]
    if folder is None:
        return None
    for name in _TLS_FILES:
        if flags[name]:
            raise ConfigError(f"--certificates and --{name.replace('_', '-')} exclude each other; keep one")
    return ClientCertificates.read(folder, flags["server_name"])


def _extender(flags: dict[str, Any], copied: ClientCertificates | None) -> ExtenderConfig:
    files = {name: flags[name] for name in _TLS_FILES}
    for path in filter(None, files.values()):
        if not path.startswith(f"{FOLDER}/"):
            raise ConfigError(
                f"{path} is not in {FOLDER}, the only folder that is mounted into the pod of the scheduler"
            )
    named = {**files, "server_name": flags["server_name"]}
    tls = copied.tls if copied else Tls(**named) if any(named.values()) else None
    return ExtenderConfig(_url(flags, "https" if tls else "http"), weight=flags["weight"], tls=tls)


def _url(flags: dict[str, Any], scheme: str) -> str:
    address, url = flags["address"], flags["url"]
    if address and url != DEFAULT_URL:
        raise ConfigError("--address and --url exclude each other; keep one")
    if not address:
        return DEFAULT_URL.replace("http", scheme, 1) if url == DEFAULT_URL else str(url)
    host = f"[{address}]" if ":" in address else address
    return f"{scheme}://{host}:{EXTENDER_NODE_PORT}{EXTENDER_PREFIX}"


def _version(pod: Object, flag: str | None) -> KubernetesVersion:
    version = version_of(pod)
    if version is None and flag is None:
        raise ConfigError("the tag of kube-scheduler's image is not a version; set --kubernetes-version")
    return version or parse_version(flag or "")


def _base(node: NodeFiles, pod: Object) -> Object | None:
    """The current configuration of the scheduler, None if it has none."""
    base = base_of(pod)
    if base is None:
        return None
    text = node.text(base.path)
    if text is None:
        raise ConfigError(f"kube-scheduler has {base.flag}={base.path}, but there is no {node.at(base.path)}")
    return parse(text, base.path)


def _read_pod(node: NodeFiles) -> tuple[str, Object]:
    text = node.text(node.manifest)
    if text is None:
        raise ConfigError(f"there is no {node.at(node.manifest)}; is kube-scheduler a static pod here?")
    pod = parse(text, node.manifest)
    try:
        msgspec.convert(pod, _StaticPod)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{node.manifest} is not a static pod: {error}") from error
    return text, pod


class _Named(Struct):
    name: str = ""


class _HttpGet(Struct):
    port: int | str


class _Probe(Struct, rename="camel"):
    http_get: _HttpGet | None = None


class _Port(Struct, rename="camel"):
    container_port: int


class _Container(Struct, rename="camel"):
    command: list[Any] | None = None
    args: list[Any] | None = None
    volume_mounts: list[_Named] | None = None
    ports: list[_Port] | None = None
    liveness_probe: _Probe | None = None
    readiness_probe: _Probe | None = None


class _Spec(Struct):
    containers: list[_Container] | None = None
    volumes: list[_Named] | None = None


class _Metadata(Struct):
    name: str
    annotations: dict[str, str] | None = None


class _StaticPod(Struct):
    """The fields that ``kubescheduler`` reads, to check their types."""

    metadata: _Metadata
    spec: _Spec


def _dump(pod: Object) -> str:
    from gpushare.model.yaml_text import dump

    return dump(pod)


def _show(edit: PendingEdit) -> None:
    """Prints the changes of an edit as a diff."""
    after, node = edit.after, edit.node
    backup = {node.backup: edit.now.manifest} if edit.keep else {}
    config = {after.config_file: after.config} if after.config_file else {}
    for path, text in {**config, **backup, node.manifest: after.manifest}.items():
        old = node.text(path) or ""
        if old == text:
            click.echo(f"unchanged: {path}")
        else:
            lines = difflib.unified_diff(old.splitlines(), text.splitlines(), path, path, lineterm="")
            click.echo("\n".join(lines))
    for path, content in edit.copies.items():
        click.echo(f"{'unchanged' if read_file(node.at(path)) == content else 'to write'}: {path}")
