"""``gpushare scheduler-manifest``: edits the static pod of kube-scheduler on a node of the control plane.

``install`` puts the extender into the scheduler's configuration, ``restore`` takes it out again. The
kubelet starts the pod again by itself. What is edited, and how, is ``model.static_pod``'s; here are files.
"""

import difflib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from gpushare.adapters.files import read_file, replace_file
from gpushare.cli.lazy import CONTEXT
from gpushare.contract import EXTENDER_NODE_PORT, EXTENDER_PREFIX
from gpushare.errors import ConfigError
from gpushare.model.scheduler_config import (
    DEFAULT_URL,
    DEFAULT_WEIGHT,
    ExtenderConfig,
    KubernetesVersion,
    Tls,
    parse_version,
)
from gpushare.model.static_pod import FOLDER, Object, base_of, installed, is_installed, removed, version_of

_MANIFEST: Final = "/etc/kubernetes/manifests/kube-scheduler.yaml"
_BACKUP: Final = "/etc/kubernetes/manifests-backup/kube-scheduler.ori.yaml"
"""Not beside the manifest, where the kubelet would run it too."""
_READABLE: Final = 0o644
"""No secrets are in the configuration, and the scheduler need not be root."""


@dataclass(frozen=True, slots=True)
class Node:
    """The files of a node. Paths are the node's own; ``root`` is where they are found."""

    root: Path
    manifest: str = _MANIFEST
    backup: str = _BACKUP

    def at(self, path: str) -> Path:
        """Where the node's path is found."""
        return self.root / path.lstrip("/")


def _common(function: Callable[..., None]) -> Callable[..., None]:
    options = (
        click.option(
            "--root", default="/", type=click.Path(path_type=Path), help="Where the node's files are."
        ),
        click.option("--manifest", default=_MANIFEST, help="The static pod of kube-scheduler, on the node."),
        click.option("--backup", default=_BACKUP, help="Where the manifest is kept as it was."),
        click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
        click.option("--stay", default=0, metavar="SECONDS", help="End so much later: a Job's pods spread."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.group("scheduler-manifest", context_settings={"show_default": True, **CONTEXT})
def command() -> None:
    """Tell a kube-scheduler that runs as a static pod of the extender."""


@command.command()
@click.option("--url", default=DEFAULT_URL, help="Of the extender, as the scheduler sees it.")
@click.option("--address", metavar="IP", help="Reach the extender's NodePort there, in place of --url.")
@click.option("--weight", default=DEFAULT_WEIGHT, help="Of the extender's scores.")
@click.option("--ca-file", help=f"Whom the scheduler trusts, for https; in {FOLDER}.")
@click.option("--cert-file", help=f"The scheduler's client certificate; in {FOLDER}.")
@click.option("--key-file", help=f"The key of that certificate; in {FOLDER}.")
@click.option("--server-name", help="The name in the extender's certificate, where the URL has another.")
@click.option("--kubernetes-version", metavar="1.36", help="Where the image's tag does not tell it.")
@_common
def install(root: Path, manifest: str, backup: str, **flags: Any) -> None:
    """Put the extender into the scheduler's configuration."""
    node = Node(root, manifest, backup)
    text, pod = _read_pod(node)
    edit = installed(pod, _extender(flags), _version(pod, flags["kubernetes_version"]), _base(node, pod))
    changes = {edit.config_file: edit.config_text}
    if edit.manifest != pod:
        if not is_installed(pod):
            changes[node.backup] = text
        changes[node.manifest] = _dump(edit.manifest)
    _write(node, changes, dry_run=flags["dry_run"])
    time.sleep(flags["stay"])


@command.command()
@_common
def restore(root: Path, manifest: str, backup: str, **flags: Any) -> None:
    """Take the extender out of the scheduler's configuration again."""
    node = Node(root, manifest, backup)
    _, pod = _read_pod(node)
    changes = {node.manifest: _restored(node, removed(pod))} if is_installed(pod) else {}
    _write(node, changes, dry_run=flags["dry_run"])
    time.sleep(flags["stay"])


def _restored(node: Node, pod: Object) -> str:
    """The backup, letter for letter, where nothing else has changed since."""
    kept = read_file(node.at(node.backup))
    return kept.decode() if kept is not None and _parse(kept.decode(), node.backup) == pod else _dump(pod)


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


def _base(node: Node, pod: Object) -> Object | None:
    """What the scheduler's own configuration says, None where it has none."""
    base = base_of(pod)
    if base is None:
        return None
    content = read_file(node.at(base.path))
    if content is None:
        raise ConfigError(f"kube-scheduler has {base.flag}={base.path}, and there is no {node.at(base.path)}")
    return _parse(content.decode(), base.path)


def _read_pod(node: Node) -> tuple[str, Object]:
    content = read_file(node.at(node.manifest))
    if content is None:
        raise ConfigError(f"there is no {node.at(node.manifest)}; is kube-scheduler a static pod here?")
    return content.decode(), _parse(content.decode(), node.manifest)


def _parse(text: str, path: str) -> Object:
    import yaml  # noqa: PLC0415 - slow to load, and --help does without

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path} is not a mapping")
    return document


def _dump(pod: Object) -> str:
    import yaml  # noqa: PLC0415 - as above

    text: str = yaml.safe_dump(pod, sort_keys=False)
    return text


def _write(node: Node, changes: dict[str, str], *, dry_run: bool) -> None:
    """Each file whole, in the given order: the manifest comes last, for the kubelet acts on it at once."""
    for path, text in changes.items():
        file = node.at(path)
        old = read_file(file)
        if old == text.encode():
            click.echo(f"unchanged: {path}")
        elif dry_run:
            shown = difflib.unified_diff(
                (old or b"").decode().splitlines(), text.splitlines(), path, path, lineterm=""
            )
            click.echo("\n".join(shown))
        else:
            mode = _READABLE if path.startswith(FOLDER) else node.at(node.manifest).stat().st_mode & 0o7777
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, text.encode(), mode=mode)
            click.echo(f"changed: {path}")
    if node.manifest not in changes:
        click.echo(f"unchanged: {node.manifest}")
