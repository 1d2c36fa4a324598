"""A stock kube-scheduler beside the extender, for clusters whose own scheduler cannot be configured.

It runs under the extender's account. Its rights are the cluster roles that every Kubernetes has for
its own scheduler; its configuration is the one renderer's.
"""

import hashlib
from typing import Final

import yaml

from components.config import Extender, Scheduler
from components.manifests.parts import (
    Object,
    cluster_role_binding,
    container_security,
    http_probes,
    metadata,
    role_binding,
    sizes,
)
from gpushare.contract import EXTENDER_NAME, EXTENDER_PREFIX, EXTENDER_SERVICE_PORT
from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import ExtenderConfig, Format, KubernetesVersion, SchedulerOptions, render

_CLUSTER_ROLES: Final = ("system:kube-scheduler", "system:volume-scheduler")
_AUTHENTICATION: Final = "extension-apiserver-authentication-reader"
_SECURE_PORT: Final = 10259
_FOLDER: Final = "/etc/gpushare/scheduler"
_FILE: Final = "config.yaml"
_CONFIG_MARK: Final = "checksum/config"
"""Changes with the configuration, so that the pod does too."""


def objects(settings: Extender, version: KubernetesVersion) -> list[Object]:
    """Rights and configuration; the container is in the extender's pod."""
    name = _scheduler(settings).name
    return [
        *(
            cluster_role_binding(f"{EXTENDER_NAME}-{role.removeprefix('system:')}", role, EXTENDER_NAME)
            for role in _CLUSTER_ROLES
        ),
        role_binding(f"{EXTENDER_NAME}-authentication", _AUTHENTICATION, EXTENDER_NAME),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(name),
            "data": {_FILE: _config_text(settings, version)},
        },
    ]


def container(settings: Extender) -> Object:
    """Of kube-scheduler; it finds the API by the pod's account."""
    scheduler = _scheduler(settings)
    return {
        "name": "kube-scheduler",
        "image": scheduler.image,
        "command": ["kube-scheduler", f"--config={_FOLDER}/{_FILE}", f"--secure-port={_SECURE_PORT}"],
        **http_probes("/healthz", "/healthz", _SECURE_PORT, scheme="HTTPS"),
        "resources": sizes(scheduler.cpu, scheduler.memory),
        "securityContext": container_security(),
        "volumeMounts": [{"name": "scheduler", "mountPath": _FOLDER, "readOnly": True}],
    }


def volume(settings: Extender) -> Object:
    """The folder with the scheduler's configuration."""
    return {"name": "scheduler", "configMap": {"name": _scheduler(settings).name}}


def config_mark(settings: Extender, version: KubernetesVersion) -> dict[str, str]:
    """The annotation of the pod that changes with the configuration."""
    digest = hashlib.sha256(_config_text(settings, version).encode()).hexdigest()
    return {_CONFIG_MARK: digest[:16]}


def _config_text(settings: Extender, version: KubernetesVersion) -> str:
    url = f"http://127.0.0.1:{EXTENDER_SERVICE_PORT}{EXTENDER_PREFIX}"
    options = SchedulerOptions(name=_scheduler(settings).name, leader_elect=settings.lease)
    document = render(ExtenderConfig(url), version, options=options, form=Format.COMPONENT_CONFIG)
    return yaml.safe_dump(document, sort_keys=False)


def _scheduler(settings: Extender) -> Scheduler:
    if settings.scheduler is None:
        raise ConfigError("extender.scheduler: missing")
    return settings.scheduler
