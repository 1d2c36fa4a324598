"""The metrics API: account, roles, Deployment, Service and APIServices."""

import base64
from typing import Final

from components.config import MetricsApi, MetricsSource
from components.manifests.parts import (
    AUTHENTICATION_READER,
    NON_ROOT,
    OPS,
    Object,
    account,
    cluster_rights,
    container_security,
    control_plane_tolerations,
    http_probes,
    labels,
    metadata,
    non_root_security,
    preferred_anti_affinity,
    role_binding,
    rule,
    sizes,
)
from gpushare.contract import (
    METRICS_API_GROUP,
    METRICS_API_NAME,
    METRICS_API_OPS_PORT,
    METRICS_API_PORT,
    METRICS_API_VERSIONS,
    SYSTEM_NAMESPACE,
)
from gpushare.kubescheduler.config import KubernetesVersion

_LABELS: Final = labels(METRICS_API_NAME)
_TLS_FOLDER: Final = "/etc/gpushare/tls"
_HTTPS: Final = 443
_GROUP_PRIORITY: Final = 100
_STEP: Final = 100


def objects(settings: MetricsApi, version: KubernetesVersion) -> list[Object]:
    """All objects of the metrics API."""
    return [
        account(METRICS_API_NAME),
        *cluster_rights(
            METRICS_API_NAME,
            [
                rule("", ["nodes", "pods"], ["list", "watch"]),
                # Of `system:auth-delegator`, which also has the right to review tokens.
                rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
            ],
        ),
        role_binding(f"{METRICS_API_NAME}-auth-reader", AUTHENTICATION_READER, METRICS_API_NAME),
        _deployment(settings, version),
        _service(),
        *(
            _api_service(name, (position + 1) * _STEP, settings)
            for position, name in enumerate(reversed(METRICS_API_VERSIONS))
        ),
    ]


def _service() -> Object:
    port = {"name": "https", "port": _HTTPS, "targetPort": METRICS_API_PORT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(METRICS_API_NAME, _LABELS),
        "spec": {"type": "ClusterIP", "ports": [port], "selector": dict(_LABELS)},
    }


def _api_service(version: str, priority: int, settings: MetricsApi) -> Object:
    """The version with the highest priority is preferred."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{METRICS_API_GROUP}"},
        "spec": {
            "service": {"name": METRICS_API_NAME, "namespace": SYSTEM_NAMESPACE, "port": _HTTPS},
            "group": METRICS_API_GROUP,
            "version": version,
            "groupPriorityMinimum": _GROUP_PRIORITY,
            "versionPriority": priority,
            "caBundle": base64.b64encode(settings.ca_bundle.encode()).decode(),
        },
    }


def _deployment(settings: MetricsApi, version: KubernetesVersion) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(METRICS_API_NAME, _LABELS),
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": dict(_LABELS)},
            "template": {
                "metadata": {"labels": dict(_LABELS)},
                "spec": {
                    "serviceAccountName": METRICS_API_NAME,
                    "priorityClassName": "system-cluster-critical",
                    "tolerations": control_plane_tolerations(),
                    "affinity": {"podAntiAffinity": preferred_anti_affinity(_LABELS)},
                    # The files of the Secret belong to the group.
                    "securityContext": {**non_root_security(version), "fsGroup": NON_ROOT},
                    "containers": [_container(settings)],
                    "volumes": [
                        {"name": "tls", "secret": {"secretName": settings.tls_secret, "defaultMode": 0o440}}
                    ],
                },
            },
        },
    }


def _container(settings: MetricsApi) -> Object:
    prometheus = settings.source is MetricsSource.PROMETHEUS
    return {
        "name": METRICS_API_NAME,
        "image": settings.image,
        "command": [
            "gpushare",
            "metrics-api",
            f"--tls-cert={_TLS_FOLDER}/tls.crt",
            f"--tls-key={_TLS_FOLDER}/tls.key",
            f"--source={settings.source}",
            *([f"--prometheus-url={settings.prometheus_url}"] if prometheus else []),
        ],
        "env": [
            {"name": "PORT", "value": str(METRICS_API_PORT)},
            {"name": "OPS_PORT", "value": str(METRICS_API_OPS_PORT)},
        ],
        "ports": [
            {"name": "https", "containerPort": METRICS_API_PORT},
            {"name": OPS, "containerPort": METRICS_API_OPS_PORT},
        ],
        **http_probes("/healthz", "/readyz", OPS),
        "resources": sizes(settings.cpu, settings.memory),
        "securityContext": container_security(),
        "volumeMounts": [{"name": "tls", "mountPath": _TLS_FOLDER, "readOnly": True}],
    }
