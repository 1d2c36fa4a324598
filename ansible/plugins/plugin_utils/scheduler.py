"""Edits the static pod of kube-scheduler as text.

What belongs here: functions from text to text, and facts of a manifest for the role. What does not: the edit
itself (``gpushare.kubescheduler.static_pod``) and files (the tasks of the role).
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.errors import ConfigError
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.kubescheduler.config import (
    ExtenderConfig,
    KubernetesVersion,
    SchedulerOptions,
    Tls,
    parse_version,
    render,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.kubescheduler.health import health_urls
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.kubescheduler.static_pod import (
    FOLDER,
    base_of,
    installed,
    is_installed,
    removed,
    version_of,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.model import yaml_text

Object = dict[str, Any]

PROGRAM = "kube-scheduler"


def state_of(manifest: str) -> Object:
    """Return facts of a manifest: our configuration, the version and the existing configuration."""
    pod = _pod(manifest)
    base, version = base_of(pod), version_of(pod)
    return {
        "installed": is_installed(pod),
        "kubernetes_version": str(version) if version else "",
        "base_file": base.path if base else "",
        "argument": _argument(pod),
        "health": health_urls(pod, PROGRAM),
    }


def install(
    manifest: str,
    extender: Object,
    *,
    kubernetes_version: str = "",
    base: str = "",
    policy_file: str = "",
) -> Object:
    """Return the manifest with the extender, unchanged byte for byte if it already has it.

    ``extender`` is as for ``extender_config``, ``base`` the text of the existing configuration.
    """
    pod = _pod(manifest)
    edit = installed(
        pod,
        extender_config(extender),
        _version(pod, kubernetes_version),
        _mapping(base, "the existing configuration of the scheduler") if base else None,
        policy_file=policy_file or None,
    )
    return {
        "manifest": manifest if edit.manifest == pod else _dump(edit.manifest),
        "config_file": edit.config_file,
        "config": edit.config_text,
        "argument": _argument(edit.manifest),
        "from_backup": False,
    }


def remove(manifest: str, backup: str = "") -> Object:
    """Return the manifest without our configuration: the backup if nothing else has changed since."""
    nothing = {"config_file": "", "config": "", "argument": ""}
    pod = _pod(manifest)
    original = removed(pod)
    if not is_installed(pod):
        return {"manifest": manifest, **nothing, "from_backup": False}
    kept = bool(backup) and _mapping(backup, "the backup") == original
    return {"manifest": backup if kept else _dump(original), **nothing, "from_backup": kept}


def configuration(extender: Object, options: Object) -> str:
    """Return the configuration of a second scheduler: ``kubernetes_version``, ``name``, ``kubeconfig``."""
    names = SchedulerOptions(name=options["name"], kubeconfig=options["kubeconfig"] or None)
    version = parse_version(str(options["kubernetes_version"]))
    document = render(extender_config(extender), version, options=names)
    return json.dumps(document, indent=2) + "\n"


def extender_config(extender: Object) -> ExtenderConfig:
    """Convert ``url``, ``weight``, ``http_timeout_s`` and ``tls``, a mapping of paths on the host."""
    files = {key: value for key, value in (extender.get("tls") or {}).items() if value}
    for key, path in files.items():
        if key != "server_name" and not path.startswith(f"{FOLDER}/"):
            raise ConfigError(f"{key} {path} is not in {FOLDER}, the only folder in the scheduler's pod")
    return ExtenderConfig(
        extender["url"],
        weight=int(extender["weight"]),
        http_timeout_s=int(extender["http_timeout_s"]),
        tls=Tls(**{"ca_file": "", **files}) if files else None,
    )


def _argument(pod: Object) -> str:
    """Return the flag of our file on the command line, empty without our configuration."""
    if not is_installed(pod):
        return ""
    before = _words(removed(pod))
    return next((word for word in _words(pod) if word not in before), "")


def _words(pod: Object) -> list[str]:
    return [
        word
        for container in pod["spec"]["containers"]
        for word in (*(container.get("command") or ()), *(container.get("args") or ()))
    ]


def _version(pod: Object, configured: str) -> KubernetesVersion:
    version = version_of(pod)
    if version is None and not configured:
        raise ConfigError("the tag of kube-scheduler's image is not a version; set the Kubernetes version")
    return version or parse_version(str(configured))


def _pod(manifest: str) -> Object:
    return _mapping(manifest, "the static pod of kube-scheduler")


def _mapping(text: str, what: str) -> Object:
    try:
        document = yaml_text.parse(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{what} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{what} is not a mapping")
    return document


def _dump(pod: Object) -> str:
    return yaml_text.dump(pod)
