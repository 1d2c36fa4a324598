"""The webhook that names the scheduler of new pods: account, server, configuration.

If it cannot be reached, pods are created without the name: the API server must not depend on it.
"""

from collections.abc import Mapping
from typing import Final

from components.config_extender import Extender, Webhook
from components.manifests import https_server
from components.manifests.https_server import Server
from components.manifests.parts import Object, account, labels
from components.manifests.policies import requests
from gpushare.contract import (
    SCHEDULER_NAMING,
    SCHEDULER_NAMING_OPS_PORT,
    SCHEDULER_NAMING_PATH,
    SCHEDULER_NAMING_PORT,
    SYSTEM_NAMESPACE,
)
from gpushare.kubescheduler.config import KubernetesVersion

_FIRST_CONDITIONS: Final = KubernetesVersion(1, 30)
"""Older API servers do not accept optional fields in CEL, and call the webhook for every new pod."""
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
        *https_server.objects(_server(extender, scheduler, settings), settings, version),
        _configuration(settings, conditions if version >= _FIRST_CONDITIONS else {}),
    ]


def _configuration(settings: Webhook, conditions: Mapping[str, str]) -> Object:
    operator = "NotIn"  # codespell:ignore
    name = {"key": "kubernetes.io/metadata.name", "operator": operator, "values": [SYSTEM_NAMESPACE]}
    service = {**https_server.service_reference(SCHEDULER_NAMING), "path": SCHEDULER_NAMING_PATH}
    webhook = {
        "name": "scheduler-name.gpushare.io",
        "rules": [requests("", ["pods"], ["CREATE"])],
        "namespaceSelector": {"matchExpressions": [name]},
        **({"matchConditions": _named(conditions)} if conditions else {}),
        "clientConfig": {"service": service, **https_server.ca_bundle(settings)},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "timeoutSeconds": _TIMEOUT_S,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {
            "name": SCHEDULER_NAMING,
            "labels": labels(SCHEDULER_NAMING),
            **https_server.ca_metadata(settings),
        },
        "webhooks": [webhook],
    }


def _named(conditions: Mapping[str, str]) -> list[Object]:
    return [{"name": name, "expression": text} for name, text in conditions.items()]


def _server(extender: Extender, scheduler: str, settings: Webhook) -> Server:
    return Server(
        name=SCHEDULER_NAMING,
        image=extender.image,
        command=["gpushare", "scheduler-name"],
        options={"scheduler_name": scheduler},
        port=SCHEDULER_NAMING_PORT,
        ops_port=SCHEDULER_NAMING_OPS_PORT,
        replicas=settings.replicas,
        env={"LOG_LEVEL": str(extender.log_level)},
        has_token=False,
    )
