"""A stock kube-scheduler beside the extender, for clusters where the default one cannot be configured.

It uses the account of the extender, and the cluster roles that Kubernetes has for kube-scheduler. The
configuration is from ``kubescheduler.config``. Of several, the leader of their election schedules; its
extender forwards binds to the extender that holds the other Lease.
"""

import hashlib
from typing import Final

import yaml

from components.config_extender import Extender, Scheduler
from components.manifests import scheduler_name
from components.manifests.parts import (
    AUTHENTICATION_READER,
    Object,
    cluster_role_binding,
    container_security,
    http_probes,
    metadata,
    role,
    role_binding,
    rule,
)
from gpushare.contract import EXTENDER_NAME, EXTENDER_OPS_PORT, EXTENDER_PREFIX, EXTENDER_SERVICE_PORT
from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import ExtenderConfig, Format, KubernetesVersion, SchedulerOptions, render

_CLUSTER_ROLES: Final = ("system:kube-scheduler", "system:volume-scheduler")
_SECURE_PORT: Final = 10259
_FOLDER: Final = "/etc/gpushare/scheduler"
_FILE: Final = "config.yaml"
_CONFIG_MARK: Final = "checksum/config"
"""Changes with the configuration, so that the pod is replaced."""


def objects(settings: Extender, version: KubernetesVersion) -> list[Object]:
    """Roles, configuration and policies; the container is in the pod of the extender."""
    name = _scheduler(settings).name
    return [
        *(
            cluster_role_binding(f"{EXTENDER_NAME}-{role.removeprefix('system:')}", role, EXTENDER_NAME)
            for role in _CLUSTER_ROLES
        ),
        role_binding(f"{EXTENDER_NAME}-authentication", AUTHENTICATION_READER, EXTENDER_NAME),
        *(_own_lease(name) if settings.lease else []),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(name),
            "data": {_FILE: _config_text(settings, version)},
        },
        *(
            scheduler_name.objects(settings, _scheduler(settings), version)
            if _scheduler(settings).set_scheduler_name
            else []
        ),
    ]


def _own_lease(name: str) -> list[Object]:
    """For the election among the schedulers; the role of Kubernetes names the Lease of the default one."""
    group, leases = "coordination.k8s.io", ["leases"]
    rules = [rule(group, leases, ["get", "update"], names=[name]), rule(group, leases, ["create"])]
    return [role(name, rules), role_binding(name, name, EXTENDER_NAME)]


def container(settings: Extender) -> Object:
    """The container of kube-scheduler; it uses the service account of the pod."""
    scheduler = _scheduler(settings)
    return {
        "name": "kube-scheduler",
        "image": scheduler.image,
        "command": [
            "kube-scheduler",
            f"--config={_FOLDER}/{_FILE}",
            f"--secure-port={_SECURE_PORT}",
            *scheduler.extra_args,
        ],
        **_probes(settings),
        "resources": {
            "requests": {"cpu": scheduler.cpu, "memory": scheduler.memory},
            "limits": {"cpu": scheduler.cpu_limit, "memory": scheduler.memory_limit},
        },
        "securityContext": container_security(),
        "volumeMounts": [{"name": "scheduler", "mountPath": _FOLDER, "readOnly": True}],
    }


def _probes(settings: Extender) -> Object:
    """Of several schedulers, one whose extender has failed must not lead: its restart releases the Lease.

    One that hangs loses the Lease without a probe.
    """
    own = http_probes("/healthz", "/healthz", _SECURE_PORT, scheme="HTTPS")
    extender = http_probes("/healthz", "/readyz", EXTENDER_OPS_PORT)
    return {**own, "livenessProbe": extender["livenessProbe"]} if settings.replicas > 1 else own


def volume(settings: Extender) -> Object:
    """The volume with the configuration of the scheduler."""
    return {"name": "scheduler", "configMap": {"name": _scheduler(settings).name}}


def config_mark(settings: Extender, version: KubernetesVersion) -> dict[str, str]:
    """The pod annotation that changes with the configuration."""
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
