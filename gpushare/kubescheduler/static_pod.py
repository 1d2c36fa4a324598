"""Adds our configuration to the static pod of kube-scheduler, and removes it. Plain dicts.

An annotation of the pod records the replaced flag, so that removal needs nothing else and keeps other changes
to the pod. What does not belong here: files and YAML.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import (
    ExtenderConfig,
    Format,
    KubernetesVersion,
    SchedulerOptions,
    parse_version,
    reads_policy,
    render,
)
from gpushare.kubescheduler.merge import merged

Object = dict[str, Any]

FOLDER: Final = "/etc/kubernetes/gpushare"
"""Folder of our configuration, on the node and in the pod."""
CONFIG_FLAG: Final = "--config"
POLICY_FLAG: Final = "--policy-config-file"
_CONFIG_MAP_FLAG: Final = "--policy-configmap"
_FILES: Final = {CONFIG_FLAG: "scheduler-config.json", POLICY_FLAG: "scheduler-policy-config.json"}
PROGRAM: Final = "kube-scheduler"
_VOLUME: Final = "gpushare-scheduler"
_FILE_VOLUME: Final = "gpushare-scheduler-file"
_VOLUMES: Final = (_VOLUME, _FILE_VOLUME)
_MARK: Final = "gpushare.io/scheduler-config"
"""Digest of the configuration: the kubelet restarts the pod when it changes."""
_REPLACED: Final = "gpushare.io/replaced-flag"
"""JSON list: the words of the command line that our flag replaced."""


class ManifestEdit(NamedTuple):
    """The edited static pod, and its configuration file (JSON, which is also YAML)."""

    manifest: Object
    config_file: str
    config_text: str


class Base(NamedTuple):
    """The existing configuration of the scheduler: flag and path."""

    flag: str
    path: str


def base_of(manifest: Object) -> Base | None:
    """The existing configuration without ours, None if there is none. Raises as ``installed`` does."""
    container = _scheduler(removed(manifest))
    if flag_value(container, _CONFIG_MAP_FLAG) is not None:
        raise ConfigError(
            f"kube-scheduler has {_CONFIG_MAP_FLAG}, which a file cannot extend; remove that flag"
        )
    for flag in (CONFIG_FLAG, POLICY_FLAG):
        path = flag_value(container, flag)
        if path is not None:
            return Base(flag, path)
    return None


def version_of(manifest: Object) -> KubernetesVersion | None:
    """The version from the tag of the scheduler's image, None if the tag is not a version."""
    _, _, tag = str(_scheduler(manifest).get("image", "")).partition("@")[0].rpartition(":")
    try:
        return parse_version(tag)
    except ConfigError:
        return None


def installed(
    manifest: Object,
    extender: ExtenderConfig,
    version: KubernetesVersion,
    base: Mapping[str, object] | None = None,
    *,
    policy_file: str | None = None,
) -> ManifestEdit:
    """The pod with the extender in its configuration; idempotent.

    ``base`` is the content of the file of ``base_of``. Without it, the configuration is a Policy up to
    Kubernetes 1.22, later a KubeSchedulerConfiguration with the scheduler's kubeconfig and leader election.
    A Policy goes into ``policy_file``, unless the scheduler has its own Policy there. Raises ConfigError if
    this is not a static pod of kube-scheduler, or its configuration does not support the extender.
    """
    found = base_of(manifest)
    if found and base is None:
        raise ConfigError(
            f"kube-scheduler has {found.flag}={found.path}, but the content of that file is missing"
        )
    original = removed(manifest)
    flag = found.flag if found else POLICY_FLAG if reads_policy(version) else CONFIG_FLAG
    document = merged(base, extender) if base is not None else _fresh(original, extender, version)
    text = json.dumps(document, indent=2) + "\n"
    requested = policy_file if flag == POLICY_FLAG and Base(flag, policy_file or "") != found else None
    file = requested or f"{FOLDER}/{_FILES[flag]}"
    return ManifestEdit(
        _with_file(original, flag, file, hashlib.sha256(text.encode()).hexdigest()[:16]), file, text
    )


def _fresh(manifest: Object, extender: ExtenderConfig, version: KubernetesVersion) -> dict[str, object]:
    """With ``--config``, kube-scheduler reads kubeconfig and leader election from the file."""
    if reads_policy(version):
        return render(extender, version, form=Format.POLICY)
    container = _scheduler(manifest)
    options = SchedulerOptions(
        kubeconfig=flag_value(container, "--kubeconfig"),
        leader_elect=flag_value(container, "--leader-elect") != "false",
    )
    return render(extender, version, options=options, form=Format.COMPONENT_CONFIG)


def _with_file(manifest: Object, flag: str, file: str, digest: str) -> Object:
    container = _scheduler(manifest)
    key, words = _words_with_flags(container)
    index, count = _position(words, flag) or (len(words), 0)
    marks = {_MARK: digest, _REPLACED: json.dumps(words[index : index + count])}
    mounted = _mounted(file)
    mounts = [{"name": name, "mountPath": path, "readOnly": True} for name, path, _ in mounted]
    volumes = [{"name": name, "hostPath": {"path": path, "type": kind}} for name, path, kind in mounted]
    changed = {
        **container,
        key: [*words[:index], f"{flag}={file}", *words[index + count :]],
        "volumeMounts": [*(container.get("volumeMounts") or []), *mounts],
    }
    pod = _with_scheduler(manifest, changed)
    pod["spec"]["volumes"] = [*(manifest["spec"].get("volumes") or []), *volumes]
    pod["metadata"] = {
        **manifest["metadata"],
        "annotations": {**(manifest["metadata"].get("annotations") or {}), **marks},
    }
    return pod


def _mounted(file: str) -> list[tuple[str, str, str]]:
    """Volume, path and type of every mount: our folder, and a file outside of it."""
    folder = (_VOLUME, FOLDER, "DirectoryOrCreate")  # a Policy may be the only file, and elsewhere
    return [folder] if file.startswith(f"{FOLDER}/") else [folder, (_FILE_VOLUME, file, "File")]


def is_installed(manifest: Object) -> bool:
    """Whether the pod has our configuration."""
    return _MARK in (manifest.get("metadata", {}).get("annotations") or {})


def config_file_of(manifest: Object) -> str:
    """The path of our configuration from the command line; empty if the pod does not have it."""
    container = _scheduler(manifest)
    values = (word.partition("=")[2] for word in words_of(container) if is_installed(manifest))
    return next((value for value in values if _is_our_file(value, container)), "")


def arguments_of(manifest: Object) -> list[str]:
    """Arguments that every process of this pod has.

    Empty if they contain variables that the kubelet replaces.
    """
    words = words_of(_scheduler(manifest))
    known = [] if any("$(" in word for word in words) else words
    return known[1:] if known and known[0].rpartition("/")[2] == PROGRAM else known


def removed(manifest: Object) -> Object:
    """The pod without our configuration; unchanged if it does not have it."""
    container = _scheduler(manifest)
    if not is_installed(manifest):
        if any(each.get("name") in _VOLUMES for each in manifest["spec"].get("volumes") or []):
            raise ConfigError(f"volume {_VOLUME} exists without annotation {_MARK}; restore the backup first")
        return manifest
    annotations = dict(manifest["metadata"]["annotations"])
    del annotations[_MARK]
    replaced = _replaced(annotations.pop(_REPLACED, None))
    key, words = _words_with_flags(container)
    ours = [index for index, word in enumerate(words) if _is_our_file(word.partition("=")[2], container)]
    for index in ours[:1]:
        words = [*words[:index], *replaced, *words[index + 1 :]]
    pod = _with_scheduler(manifest, _without(container | {key: words}, "volumeMounts"))
    pod["spec"] = _without(pod["spec"], "volumes")
    pod["metadata"] = {key: each for key, each in manifest["metadata"].items() if key != "annotations"}
    if annotations:
        pod["metadata"]["annotations"] = annotations
    return pod


def _is_our_file(path: str, container: Object) -> bool:
    mounts = container.get("volumeMounts") or []
    mounted = [each.get("mountPath") for each in mounts if each.get("name") == _FILE_VOLUME]
    return path.startswith(f"{FOLDER}/") or path in mounted


def _replaced(text: str | None) -> list[str]:
    try:
        words = json.loads(text or "")
    except json.JSONDecodeError:
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ConfigError(
            f"annotation {_REPLACED} is {text!r}, not a list of words; restore the backup by hand"
        )
    return words


def _without(parent: Object, key: str) -> Object:
    """Without our entries of that list, and without the list if it has no others."""
    rest = [each for each in parent.get(key) or [] if each.get("name") not in _VOLUMES]
    others = {name: each for name, each in parent.items() if name != key}
    return {**parent, key: rest} if rest else others


def _scheduler(manifest: Object) -> Object:
    """The container that runs kube-scheduler. Raises ConfigError if there is none that can be edited."""
    spec = manifest.get("spec")
    containers = (spec.get("containers") or []) if isinstance(spec, dict) else []
    for container in containers if manifest.get("kind") == "Pod" else []:
        if container.get("name") == PROGRAM or PROGRAM in words_of(container):
            return _checked(container)
    raise ConfigError(
        f"{manifest.get('kind')} has no container {PROGRAM}; use the manifest of its static pod"
    )


def _checked(container: Object) -> Object:
    for word in words_of(container):
        if not isinstance(word, str):
            raise ConfigError(f"container {container.get('name')}: {word!r} in its command is not a string")
        if PROGRAM in word and any(character.isspace() for character in word):
            raise ConfigError(
                f"container {container.get('name')} starts {PROGRAM} in a shell; add the flag by hand"
            )
    return container


def _with_scheduler(manifest: Object, container: Object) -> Object:
    old = _scheduler(manifest)
    containers = [container if each is old else each for each in manifest["spec"]["containers"]]
    return {**manifest, "spec": {**manifest["spec"], "containers": containers}}


def words_of(container: Object) -> list[str]:
    """The command line of a container."""
    return [*(container.get("command") or []), *(container.get("args") or [])]


def _words_with_flags(container: Object) -> tuple[str, list[str]]:
    """The field with the flags (``args`` or ``command``), and its words."""
    key = "args" if container.get("args") else "command"
    return key, list(container.get(key) or [])


def flag_value(container: Object, flag: str) -> str | None:
    """The value of a flag: the last one counts. None if it is not set, "true" for a flag without a value."""
    words = words_of(container)
    found = _position(words, flag)
    if found is None:
        return None
    index, count = found
    _, assigned, value = words[index].partition("=")
    return words[index + 1] if count > 1 else value if assigned else "true"


def _position(words: Sequence[str], flag: str) -> tuple[int, int] | None:
    """Index and number of words of the last such flag: ``--flag=value`` or ``--flag value``."""
    for index, word in reversed([*enumerate(words)]):
        if word.startswith(f"{flag}="):
            return index, 1
        if word == flag:
            valued = index + 1 < len(words) and not words[index + 1].startswith("-")
            return index, 2 if valued else 1
    return None
