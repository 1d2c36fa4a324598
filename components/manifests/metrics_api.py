"""The metrics API: account, roles, server and APIServices."""

from typing import Final

from components.config_monitoring import MetricsApi
from components.manifests import https_server
from components.manifests.https_server import Server
from components.manifests.parts import (
    AUTHENTICATION_READER,
    Object,
    account,
    cluster_rights,
    role_binding,
    rule,
)
from gpushare.contract import (
    METRICS_API_GROUP,
    METRICS_API_NAME,
    METRICS_API_OPS_PORT,
    METRICS_API_PORT,
    METRICS_API_VERSIONS,
)
from gpushare.kubescheduler.config import KubernetesVersion

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
        *https_server.objects(_server(settings), settings, version),
        *(
            _api_service(name, (position + 1) * _STEP, settings)
            for position, name in enumerate(reversed(METRICS_API_VERSIONS))
        ),
    ]


def _api_service(version: str, priority: int, settings: MetricsApi) -> Object:
    """The version with the highest priority is preferred."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{METRICS_API_GROUP}", **https_server.ca_metadata(settings)},
        "spec": {
            "service": https_server.service_reference(METRICS_API_NAME),
            "group": METRICS_API_GROUP,
            "version": version,
            "groupPriorityMinimum": _GROUP_PRIORITY,
            "versionPriority": priority,
            **https_server.ca_bundle(settings),
        },
    }


def _server(settings: MetricsApi) -> Server:
    return Server(
        name=METRICS_API_NAME,
        image=settings.image,
        command=["gpushare", "metrics-api"],
        port=METRICS_API_PORT,
        ops_port=METRICS_API_OPS_PORT,
        replicas=settings.replicas,
        has_token=True,
    )
