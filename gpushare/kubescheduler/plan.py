"""Plans the edit of a host: reads its files and decides which texts replace them.

What does not belong here: the content of the edit (``kubescheduler.static_pod``), and writing
(``kubescheduler.edit``).
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import yaml

from gpushare.errors import ConfigError, cause_of
from gpushare.kubescheduler.config import ExtenderConfig, KubernetesVersion, Tls, parse_version
from gpushare.kubescheduler.health import health_urls
from gpushare.kubescheduler.host import Host, HostFile, Target
from gpushare.kubescheduler.journal import Files, Journal, is_unproven, parse_journal
from gpushare.kubescheduler.shape import misfit
from gpushare.kubescheduler.static_pod import (
    FOLDER,
    PROGRAM,
    Object,
    arguments_of,
    base_of,
    config_file_of,
    installed,
    is_installed,
    removed,
    version_of,
)
from gpushare.model import yaml_text

MANIFEST: Final = "/etc/kubernetes/manifests/kube-scheduler.yaml"
BACKUP: Final = "/etc/kubernetes/manifests-backup/kube-scheduler.ori.yaml"
"""Not beside the manifest, where the kubelet would run it too."""
_JOURNAL: Final = "kube-scheduler.journal.json"


class Paths(NamedTuple):
    """The files on the host, beside our configuration."""

    manifest: str = MANIFEST
    backup: str = BACKUP

    @property
    def journal(self) -> str:
        """Beside the backup, outside the folder of static pods."""
        return f"{folder_of(self.backup)}/{_JOURNAL}"


class Install(NamedTuple):
    """Adds the extender.

    ``version`` counts if the tag of the image is not a version; ``version_setting`` is its name for users.
    ``policy_file`` is for a Policy, None for our folder. ``copies`` are certificates by path: they replace
    earlier ones of the same clients, and stay.
    """

    extender: ExtenderConfig
    version: str = ""
    version_setting: str = "--kubernetes-version"
    policy_file: str | None = None
    copies: Mapping[str, str] = {}


class PendingEdit(NamedTuple):
    """The files of the host ``now``, those to write (``after``), and those to restore (``before``).

    ``mode`` are the permissions of the manifest. ``processes`` are those of the scheduler of ``before``.
    ``is_unproven`` is whether an earlier run was killed before the scheduler was healthy. ``keep`` is whether
    the current manifest becomes the backup, ``spare`` whether the backup is not needed afterwards.
    """

    paths: Paths
    mode: int
    now: Files
    before: Files
    after: Files
    processes: frozenset[str]
    is_unproven: bool = False
    keep: bool = False
    spare: bool = False
    copies: Mapping[str, str] = {}


class Change(NamedTuple):
    """The text of a file before and after; None for a certificate, which is not shown."""

    path: str
    before: str | None
    after: str | None


def plan(host: Host, paths: Paths, install: Install | None) -> PendingEdit:
    """The edit that adds the extender, or removes it for None. Raises ConfigError if it is not possible."""
    if folder_of(paths.backup) == folder_of(paths.manifest):
        raise ConfigError(f"{paths.backup} is in the folder of static pods, so the kubelet would run it")
    file = host.read(paths.manifest)
    if file is None:
        raise ConfigError(f"there is no {paths.manifest}; is {PROGRAM} a static pod here?")
    pod = _pod(file.text, paths.manifest)
    now = Files(file.text, config_file_of(pod), _text(host, config_file_of(pod)))
    after = _installed(host, now, pod, install) if install else _removed(host, paths, now, pod)
    journal = _journal(host, paths, file.text)
    return PendingEdit(
        paths,
        file.mode,
        now,
        before=journal.before if journal else now,
        after=after,
        processes=journal.processes if journal else running(host, file.text),
        is_unproven=journal is not None,
        keep=install is not None and not is_installed(pod),
        # With another text, the backup may be the only copy of it.
        spare=install is None and _text(host, paths.backup) == after.manifest,
        copies=install.copies if install else {},
    )


def changes(host: Host, edit: PendingEdit) -> Iterator[Change]:
    """What the edit would change, for a run that writes nothing."""
    after = edit.after
    backup = {edit.paths.backup: edit.now.manifest} if edit.keep else {}
    config = {after.config_file: after.config} if after.config_file else {}
    for path, text in {**config, **backup, edit.paths.manifest: after.manifest}.items():
        old = _text(host, path)
        if old != text:
            yield Change(path, old, text)
    yield from (Change(path, None, None) for path, text in edit.copies.items() if _text(host, path) != text)


def target_of(manifest: str) -> Target:
    """What to observe of the scheduler of this manifest."""
    pod = parse(manifest, "the static pod")
    metadata = pod["metadata"]
    name = f"{metadata.get('namespace', 'default')}_{metadata['name']}"
    return Target(arguments_of(pod), name, health_urls(pod, PROGRAM))


def running(host: Host, manifest: str) -> frozenset[str]:
    """The processes that were started from this manifest, or from one with the same command line."""
    return host.observe(target_of(manifest)._replace(urls=())).processes


def parse(text: str, path: str) -> Object:
    """Parses YAML that must be a mapping. Raises ConfigError that names ``path``."""
    try:
        document = yaml_text.parse(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {cause_of(error)}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path} is not a mapping")
    return document


def mounted_tls(
    ca_file: str | None, cert_file: str | None, key_file: str | None, server_name: str | None
) -> Tls | None:
    """The TLS files of the scheduler; None without any. Raises ConfigError for one that its pod lacks."""
    for path in filter(None, (ca_file, cert_file, key_file)):
        if not path.startswith(f"{FOLDER}/"):
            raise ConfigError(
                f"{path} is not in {FOLDER}, the only folder that is mounted into the pod of the scheduler"
            )
    if not any((ca_file, cert_file, key_file, server_name)):
        return None
    return Tls(ca_file or "", cert_file or None, key_file or None, server_name or None)


def folder_of(path: str) -> str:
    """The folder of a file."""
    return path.rpartition("/")[0]


def _pod(text: str, path: str) -> Object:
    pod = parse(text, path)
    if problem := misfit(pod):
        raise ConfigError(f"{path} is not a static pod: {problem}")
    return pod


def _installed(host: Host, now: Files, pod: Object, install: Install) -> Files:
    version = _version(pod, install)
    edit = installed(pod, install.extender, version, _base(host, pod), policy_file=install.policy_file)
    # A manifest that stays keeps its comments.
    manifest = now.manifest if edit.manifest == pod else yaml_text.dump(edit.manifest)
    return Files(manifest, edit.config_file, edit.config_text)


def _removed(host: Host, paths: Paths, now: Files, pod: Object) -> Files:
    """The backup byte for byte if it still describes this pod, else the edited pod."""
    if not is_installed(pod):
        return Files(now.manifest)
    original, kept = removed(pod), _text(host, paths.backup)
    same = kept and parse(kept, paths.backup) == original
    return Files(kept if same else yaml_text.dump(original))


def _version(pod: Object, install: Install) -> KubernetesVersion:
    version = version_of(pod)
    if version is None and not install.version:
        raise ConfigError(f"the tag of {PROGRAM}'s image is not a version; set {install.version_setting}")
    return version or parse_version(install.version)


def _base(host: Host, pod: Object) -> Object | None:
    """The current configuration of the scheduler, None if it has none."""
    base = base_of(pod)
    if base is None:
        return None
    file = host.read(base.path)
    if file is None:
        raise ConfigError(f"{PROGRAM} has {base.flag}={base.path}, but there is no {base.path}")
    return parse(file.text, base.path)


def _journal(host: Host, paths: Paths, manifest: str) -> Journal | None:
    """The journal of an interrupted run; None if there is none, or if the manifest was replaced since."""
    text = _text(host, paths.journal)
    journal = parse_journal(text, paths.journal) if text else None
    if journal is None or not is_unproven(journal, manifest):
        return None
    host.report(f"{paths.journal}: an earlier run was interrupted")
    return journal


def _text(host: Host, path: str) -> str:
    """The text of a file, empty if there is none."""
    file = host.read(path) if path else None
    return (file or HostFile("", 0)).text
