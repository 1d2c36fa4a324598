"""``gpushare scheduler-manifest``: edits the static pod of kube-scheduler on a node of the control plane.

``install`` puts the extender into the scheduler's configuration, ``restore`` takes it out again. The
kubelet starts the pod again by itself. What is edited, and how, is ``model.static_pod``'s; writing, waiting
and going back is ``cli.scheduler_edit``'s; whose turn it is among control planes ``cli.installer_turns``'s.
"""

import difflib
import fcntl
import os
import signal
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from gpushare.adapters.files import read_file
from gpushare.adapters.static_pods import problem_of, unverified
from gpushare.cli.installer_turns import in_turn
from gpushare.cli.lazy import CONTEXT
from gpushare.cli.scheduler_edit import Ask, EditTimeouts, NodeFiles, PendingEdit, parse, perform, running
from gpushare.contract import EXTENDER_NODE_PORT, EXTENDER_PREFIX
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

_MANIFEST: Final = "/etc/kubernetes/manifests/kube-scheduler.yaml"
_BACKUP: Final = "/etc/kubernetes/manifests-backup/kube-scheduler.ori.yaml"
"""Not beside the manifest, where the kubelet would run it too."""
_HEALTHY_S: Final = 120
_SETTLE_S: Final = 5
_EXTENDER_S: Final = 30
_ANSWER_S: Final = 5.0


def _common(function: Callable[..., None]) -> Callable[..., None]:
    options = (
        click.option(
            "--root", default="/", type=click.Path(path_type=Path), help="Where the node's files are."
        ),
        click.option("--manifest", default=_MANIFEST, help="The static pod of kube-scheduler, on the node."),
        click.option("--backup", default=_BACKUP, help="Where the manifest is kept as it was."),
        click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
        click.option(
            "--wait",
            default=_HEALTHY_S,
            metavar="SECONDS",
            type=click.IntRange(1),
            help="How long kube-scheduler may take until it is healthy, before everything is restored.",
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
            help="In a pod of a Job with N pods, one for each control plane: edit one after the other.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.group("scheduler-manifest", context_settings={"show_default": True, **CONTEXT})
def command() -> None:
    """Make a kube-scheduler that runs as a static pod call the extender."""


@command.command()
@click.option("--url", default=DEFAULT_URL, help="Of the extender, as the scheduler sees it.")
@click.option("--address", metavar="IP", help="Reach the extender's NodePort there, in place of --url.")
@click.option("--weight", default=DEFAULT_WEIGHT, help="Of the extender's scores.")
@click.option("--ca-file", help=f"Whom the scheduler trusts, for https; in {FOLDER}.")
@click.option("--cert-file", help=f"The scheduler's client certificate; in {FOLDER}.")
@click.option("--key-file", help=f"The key of that certificate; in {FOLDER}.")
@click.option("--server-name", help="The name in the extender's certificate, where the URL has another.")
@click.option("--kubernetes-version", metavar="1.36", help="Where the image's tag does not tell it.")
@click.option(
    "--extender-wait",
    default=_EXTENDER_S,
    metavar="SECONDS",
    type=click.IntRange(0),
    help="How long to wait for an answer of the extender before the edit.",
)
@_common
def install(root: Path, manifest: str, backup: str, **flags: Any) -> None:
    """Put the extender into the scheduler's configuration.

    Nothing is changed where the extender does not answer this node. Everything is restored where the new
    scheduler does not become healthy, or the extender no longer answers.
    """
    node, extender = NodeFiles(root, manifest, backup), _extender(flags)

    def ask() -> str:
        return _ask(node, extender)

    def after(text: str, pod: Object) -> Files:
        edit = installed(pod, extender, _version(pod, flags["kubernetes_version"]), _base(node, pod))
        manifest = text if edit.manifest == pod else _dump(edit.manifest)
        return Files(manifest, edit.config_file, edit.config_text)

    _run(node, after, ask, flags)


@command.command()
@_common
def restore(root: Path, manifest: str, backup: str, **flags: Any) -> None:
    """Take the extender out of the scheduler's configuration again.

    The extender stays in it where the scheduler does not become healthy without.
    """
    node = NodeFiles(root, manifest, backup)

    def after(text: str, pod: Object) -> Files:
        return Files(_restored(node, removed(pod)) if is_installed(pod) else text)

    _run(node, after, None, {"extender_wait": 0, **flags})


def _run(
    node: NodeFiles, after: Callable[[str, Object], Files], ask: Ask | None, flags: dict[str, Any]
) -> None:
    """Edit the node in its turn, or show what would be edited."""
    if flags["dry_run"]:
        _show(_edit(node, after))
        return
    limits = EditTimeouts(flags["wait"], flags["settle"], flags["extender_wait"])
    with in_turn(flags["control_planes"]), _alone(node):
        perform(_edit(node, after), ask, limits)


def _edit(node: NodeFiles, after: Callable[[str, Object], Files]) -> PendingEdit:
    """What is to be done on the node. Raises ConfigError where it cannot be."""
    text, pod = _read_pod(node)
    path = config_file_of(pod)
    now, wanted = Files(text, path, node.text(path)), after(text, pod)
    journal = _journal(node, text, pod)
    return PendingEdit(
        node,
        now,
        before=journal.before if journal else now,
        after=wanted,
        processes=journal.processes if journal else running(text),
        is_unproven=journal is not None,
        keep=bool(wanted.config_file) and not is_installed(pod),
    )


def _journal(node: NodeFiles, manifest: str, pod: Object) -> Journal | None:
    """That of a run that was interrupted, None where there is none that says anything of the manifest."""
    text = node.text(node.journal)
    journal = parse_journal(text, node.journal) if text else None
    if journal is None or not is_unproven(journal, manifest, is_installed=is_installed(pod)):
        return None
    click.echo(f"{node.journal}: an earlier run was interrupted", err=True)
    return journal


@contextmanager
def _alone(node: NodeFiles) -> Iterator[None]:
    """No second edit of the node at the same time; SIGTERM undoes an edit as Ctrl-C does.

    Raises ConfigError where another edit runs, or there is no folder of manifests.
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
        raise ConfigError(f"another process edits {node.manifest}: wait until it has ended") from error


def _ask(node: NodeFiles, extender: ExtenderConfig) -> str:
    """As the scheduler will, with the files that it will have."""
    url = extender.url_prefix.rstrip("/").removesuffix(EXTENDER_PREFIX)
    name = extender.tls.server_name if extender.tls else None
    try:
        trust = _trust(node, extender.tls) if extender.tls else unverified()
    except OSError as error:
        return f"the files of its TLS cannot be used: {error}"
    return problem_of(f"{url}/version", trust, timeout_s=_ANSWER_S, server_name=name)


def _trust(node: NodeFiles, tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=node.at(tls.ca_file))
    if tls.cert_file and tls.key_file:
        context.load_cert_chain(node.at(tls.cert_file), node.at(tls.key_file))
    return context


def _restored(node: NodeFiles, pod: Object) -> str:
    """The backup, letter for letter, where nothing else has changed since."""
    kept = read_file(node.at(node.backup))
    return kept.decode() if kept is not None and parse(kept.decode(), node.backup) == pod else _dump(pod)


def _extender(flags: dict[str, Any]) -> ExtenderConfig:
    files = {name: flags[name] for name in ("ca_file", "cert_file", "key_file")}
    for path in filter(None, files.values()):
        if not path.startswith(f"{FOLDER}/"):
            raise ConfigError(f"{path} is not in {FOLDER}, all that the scheduler's pod gets to see")
    tls = Tls(**files, server_name=flags["server_name"]) if any(files.values()) else None
    return ExtenderConfig(_url(flags), weight=flags["weight"], tls=tls)


def _url(flags: dict[str, Any]) -> str:
    address = flags["address"]
    if not address:
        return str(flags["url"])
    host = f"[{address}]" if ":" in address else address
    scheme = "https" if flags["ca_file"] else "http"
    return f"{scheme}://{host}:{EXTENDER_NODE_PORT}{EXTENDER_PREFIX}"


def _version(pod: Object, given: str | None) -> KubernetesVersion:
    version = version_of(pod)
    if version is None and given is None:
        raise ConfigError("the tag of kube-scheduler's image is no version; give --kubernetes-version")
    return version or parse_version(given or "")


def _base(node: NodeFiles, pod: Object) -> Object | None:
    """What the scheduler's own configuration says, None where it has none."""
    base = base_of(pod)
    if base is None:
        return None
    content = read_file(node.at(base.path))
    if content is None:
        raise ConfigError(f"kube-scheduler has {base.flag}={base.path}, and there is no {node.at(base.path)}")
    return parse(content.decode(), base.path)


def _read_pod(node: NodeFiles) -> tuple[str, Object]:
    content = read_file(node.at(node.manifest))
    if content is None:
        raise ConfigError(f"there is no {node.at(node.manifest)}; is kube-scheduler a static pod here?")
    return content.decode(), parse(content.decode(), node.manifest)


def _dump(pod: Object) -> str:
    import yaml  # noqa: PLC0415 - as above

    text: str = yaml.safe_dump(pod, sort_keys=False)
    return text


def _show(edit: PendingEdit) -> None:
    """The difference that an edit would make."""
    after, node = edit.after, edit.node
    backup = {node.backup: edit.now.manifest} if edit.keep else {}
    config = {after.config_file: after.config} if after.config_file else {}
    for path, text in {**config, **backup, node.manifest: after.manifest}.items():
        old = node.text(path)
        if old == text:
            click.echo(f"unchanged: {path}")
        else:
            lines = difflib.unified_diff(old.splitlines(), text.splitlines(), path, path, lineterm="")
            click.echo("\n".join(lines))
