"""The webhook that names the scheduler of new pods: account, Deployment, Service, configuration.

If it cannot be reached, pods are created without the name: the API server must not depend on it.
"""

import base64
from collections.abc import Mapping
from typing import Final

from components.config import Extender, Webhook
from components.manifests.parts import (
    NON_ROOT,
    OPS,
    Object,
    account,
    container_security,
    control_plane_tolerations,
    http_probes,
    labels,
    metadata,
    non_root_security,
    preferred_anti_affinity,
    sizes,
)
from gpushare.contract import (
    SCHEDULER_NAMING,
    SCHEDULER_NAMING_OPS_PORT,
    SCHEDULER_NAMING_PATH,
    SCHEDULER_NAMING_PORT,
    SYSTEM_NAMESPACE,
)
from gpushare.kubescheduler.config import KubernetesVersion

_LABELS: Final = labels(SCHEDULER_NAMING)
_FIRST_CONDITIONS: Final = KubernetesVersion(1, 30)
"""Older API servers do not accept optional fields in CEL, and call the webhook for every new pod."""
_TLS_FOLDER: Final = "/etc/gpushare/tls"
_HTTPS: Final = 443
_TIMEOUT_S: Final = 2


def objects(
    extender: Extender,
    scheduler: str,
    settings: Webhook,
    conditions: Mapping[str, str],
    version: KubernetesVersion,
) -> list[Object]:
    """All objects; ``conditions`` are CEL expressions by name that are true for the pods to change."""
    return [
        account(SCHEDULER_NAMING),
        _deployment(extender, scheduler, settings, version),
        _service(),
        _configuration(settings, conditions if version >= _FIRST_CONDITIONS else {}),
    ]


def _configuration(settings: Webhook, conditions: Mapping[str, str]) -> Object:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    operator = "NotIn"  # codespell:ignore
    name = {"key": "kubernetes.io/metadata.name", "operator": operator, "values": [SYSTEM_NAMESPACE]}
    service = {"name": SCHEDULER_NAMING, "namespace": SYSTEM_NAMESPACE, "path": SCHEDULER_NAMING_PATH}
    webhook = {
        "name": "scheduler-name.gpushare.io",
        "rules": [rule],
        "namespaceSelector": {"matchExpressions": [name]},
        **({"matchConditions": _named(conditions)} if conditions else {}),
        "clientConfig": {
            "service": {**service, "port": _HTTPS},
            "caBundle": base64.b64encode(settings.ca_bundle.encode()).decode(),
        },
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "timeoutSeconds": _TIMEOUT_S,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": SCHEDULER_NAMING, "labels": dict(_LABELS)},
        "webhooks": [webhook],
    }


def _named(conditions: Mapping[str, str]) -> list[Object]:
    return [{"name": name, "expression": text} for name, text in conditions.items()]


def _service() -> Object:
    port = {"name": "https", "port": _HTTPS, "targetPort": SCHEDULER_NAMING_PORT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(SCHEDULER_NAMING, _LABELS),
        "spec": {"type": "ClusterIP", "ports": [port], "selector": dict(_LABELS)},
    }


def _deployment(extender: Extender, scheduler: str, settings: Webhook, version: KubernetesVersion) -> Object:
    files = {"secretName": settings.tls_secret, "defaultMode": 0o440}
    pod = {
        "serviceAccountName": SCHEDULER_NAMING,
        "automountServiceAccountToken": False,
        "priorityClassName": "system-cluster-critical",
        "tolerations": control_plane_tolerations(),
        "affinity": {"podAntiAffinity": preferred_anti_affinity(_LABELS)},
        # The files of the Secret belong to the group.
        "securityContext": {**non_root_security(version), "fsGroup": NON_ROOT},
        "containers": [_container(extender, scheduler, settings)],
        "volumes": [{"name": "tls", "secret": files}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(SCHEDULER_NAMING, _LABELS),
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": dict(_LABELS)},
            "template": {"metadata": {"labels": dict(_LABELS)}, "spec": pod},
        },
    }


def _container(extender: Extender, scheduler: str, settings: Webhook) -> Object:
    return {
        "name": SCHEDULER_NAMING,
        "image": extender.image,
        "command": [
            "gpushare",
            "scheduler-name",
            f"--scheduler-name={scheduler}",
            f"--tls-cert={_TLS_FOLDER}/tls.crt",
            f"--tls-key={_TLS_FOLDER}/tls.key",
        ],
        "env": [
            {"name": "PORT", "value": str(SCHEDULER_NAMING_PORT)},
            {"name": "OPS_PORT", "value": str(SCHEDULER_NAMING_OPS_PORT)},
            {"name": "LOG_LEVEL", "value": str(extender.log_level)},
        ],
        "ports": [
            {"name": "https", "containerPort": SCHEDULER_NAMING_PORT},
            {"name": OPS, "containerPort": SCHEDULER_NAMING_OPS_PORT},
        ],
        **http_probes("/healthz", "/readyz", OPS),
        "resources": sizes(settings.cpu, settings.memory),
        "securityContext": container_security(),
        "volumeMounts": [{"name": "tls", "mountPath": _TLS_FOLDER, "readOnly": True}],
    }
