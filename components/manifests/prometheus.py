"""Prometheus for a cluster without one: account, role, storage, server and Service.

What does not belong here: the files of the ConfigMap (``components.manifests.monitoring``).
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import yaml

from components.config_monitoring import Prometheus
from components.manifests.parts import (
    NON_ROOT,
    OPS,
    Object,
    account,
    container_security,
    deployment,
    http_probes,
    labels,
    metadata,
    non_root_security,
    placement,
    role,
    role_binding,
    rule,
    service,
    sizes,
)
from gpushare.contract import SYSTEM_NAMESPACE
from gpushare.kubescheduler.config import KubernetesVersion

NAME: Final = "gpushare-prometheus"
"""Name of all objects, and of the ConfigMap with the files."""
CONFIGURATION: Final = "prometheus.yml"
_FILES_DIGEST: Final = "checksum/files"
"""Annotation of the pod, by which it is replaced when a file changes: Prometheus does not read it again."""
_PORT: Final = 9090
URL: Final = f"http://{NAME}.{SYSTEM_NAMESPACE}:{_PORT}"
_FILES: Final = "/etc/prometheus"
_DATA: Final = "/prometheus"
_EVERY: Final = "15s"


def configuration(rule_files: list[str], scrapes: str) -> str:
    """The configuration: the rules beside it, and a text with ``scrape_configs``."""
    intervals = {"scrape_interval": _EVERY, "evaluation_interval": _EVERY}
    return yaml.safe_dump(
        {"global": intervals, "rule_files": rule_files, **yaml.safe_load(scrapes)}, sort_keys=False
    )


def digest(files: Iterable[str]) -> str:
    """The digest of the texts of the files."""
    return hashlib.sha256("".join(files).encode()).hexdigest()[:16]


def objects(settings: Prometheus, version: KubernetesVersion, files: Mapping[str, str]) -> list[Object]:
    """All objects except for the ConfigMap, which has these files."""
    return [
        account(NAME),
        # It discovers our pods.
        role(NAME, [rule("", ["pods"], ["list", "watch"])]),
        role_binding(NAME, NAME, NAME),
        *_claims(settings),
        deployment(
            NAME,
            1,
            _pod(settings, version),
            # Two must not write to the same volume.
            strategy={"type": "Recreate"},
            annotations={_FILES_DIGEST: digest(files.values())},
        ),
        service(NAME, {"name": "http", "port": _PORT, "targetPort": OPS}),
    ]


def _claims(settings: Prometheus) -> list[Object]:
    if not settings.storage:
        return []
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(NAME, labels(NAME)),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": settings.storage}},
            **({"storageClassName": settings.storage_class} if settings.storage_class else {}),
        },
    }
    return [claim]


def _pod(settings: Prometheus, version: KubernetesVersion) -> Object:
    data = {"persistentVolumeClaim": {"claimName": NAME}} if settings.storage else {"emptyDir": {}}
    return {
        "serviceAccountName": NAME,
        **placement(settings.tolerations, settings.priority_class),
        # The files of the volume belong to the group.
        "securityContext": {**non_root_security(version), "fsGroup": NON_ROOT},
        "containers": [_container(settings)],
        "volumes": [{"name": "files", "configMap": {"name": NAME}}, {"name": "data", **data}],
    }


def _container(settings: Prometheus) -> Object:
    return {
        "name": NAME,
        "image": settings.image,
        # Without a command: the program of the image.
        "args": [
            f"--config.file={_FILES}/{CONFIGURATION}",
            f"--storage.tsdb.path={_DATA}",
            f"--storage.tsdb.retention.time={settings.retention}",
            f"--web.listen-address=:{_PORT}",
            *settings.extra_args,
        ],
        # It also scrapes itself.
        "ports": [{"name": OPS, "containerPort": _PORT}],
        **http_probes("/-/healthy", "/-/ready", OPS),
        "resources": sizes(settings.cpu, settings.memory),
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "files", "mountPath": _FILES, "readOnly": True},
            {"name": "data", "mountPath": _DATA},
        ],
    }
