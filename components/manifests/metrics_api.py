"""The metrics API: rights, server, certificate and APIServices, and the right of users to the usage API."""

from collections.abc import Iterator
from typing import Final

from components.config_monitoring import MetricsApi
from components.manifests import https_server
from components.manifests.certificate_jobs import CertificateJob, rights, runs
from components.manifests.https_server import Server
from components.manifests.parts import (
    AUTHENTICATION_READER,
    RBAC,
    Object,
    account_with_rights,
    cluster_rights,
    cluster_role,
    role_binding,
    rule,
)
from gpushare.contract import (
    METRICS_API_GROUP,
    METRICS_API_NAME,
    METRICS_API_OPS_PORT,
    METRICS_API_PORT,
    METRICS_API_VERSIONS,
    METRICS_AUTHORITY_SECRET,
    METRICS_CERTIFICATES_NAME,
    METRICS_TLS_SECRET,
    USAGE_API_GROUP,
    USAGE_API_VERSION,
)
from gpushare.kubescheduler.config import KubernetesVersion

_GROUP_PRIORITY: Final = 100
_STEP: Final = 100
_SCHEDULE: Final = "47 * * * *"
"""Hourly, because an APIService that is created anew has no CA certificates until the next run."""
_READERS: Final = "gpushare-usage-reader"
AGGREGATED: Final = f"{RBAC}/aggregate-to-view"
"""The label of roles whose rights everyone with ``view``, ``edit`` or ``admin`` in a namespace has there."""


def objects(settings: MetricsApi, version: KubernetesVersion) -> list[Object]:
    """All objects of the metrics API."""
    return [
        *account_with_rights(
            METRICS_API_NAME,
            [
                rule("", ["nodes", "pods"], ["list", "watch"]),
                # Of `system:auth-delegator`, which also has the right to review tokens.
                rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
            ],
            # In these the node agents report unhealthy GPUs.
            [rule("", ["configmaps"], ["list"])],
        ),
        cluster_role(_READERS, _usage_rules(), {AGGREGATED: "true"}),
        role_binding(f"{METRICS_API_NAME}-auth-reader", AUTHENTICATION_READER, METRICS_API_NAME),
        *https_server.objects(_server(settings), settings, version),
        *(_api_service(*each, settings) for each in _versions(settings)),
        *(_certificate(settings, version) if makes_certificate(settings) else []),
    ]


def makes_certificate(settings: MetricsApi) -> bool:
    """Whether a Job makes the certificate."""
    return not settings.tls_secret


def certificate_rights(settings: MetricsApi) -> list[Object]:
    """The account that may fill the Secrets, and write the CA certificates to our APIServices."""
    names = [f"{version}.{group}" for group, version, _ in _versions(settings)]
    writing = rule("apiregistration.k8s.io", ["apiservices"], ["get", "patch"], names)
    return [*rights(_job(settings)), *cluster_rights(METRICS_CERTIFICATES_NAME, [writing])]


def _certificate(settings: MetricsApi, version: KubernetesVersion) -> list[Object]:
    return [*certificate_rights(settings), *runs(_job(settings), version)]


def _job(settings: MetricsApi) -> CertificateJob:
    return CertificateJob(
        name=METRICS_CERTIFICATES_NAME,
        secrets=(METRICS_AUTHORITY_SECRET, METRICS_TLS_SECRET),
        image=settings.certificates_image,
        flags=[f"--api-service={version}.{group}" for group, version, _ in _versions(settings)],
        schedule=_SCHEDULE,
        tolerations=settings.tolerations,
        priority_class=settings.priority_class,
    )


def _usage_rules() -> list[Object]:
    return [
        rule(USAGE_API_GROUP, ["gpupods"], ["get", "list"]),
        rule(USAGE_API_GROUP, ["gpupods/explanation"], ["get"]),
        rule(USAGE_API_GROUP, ["gpufits"], ["list"]),
    ]


def _versions(settings: MetricsApi) -> Iterator[tuple[str, str, int]]:
    """Group, version and priority of each version. The one with the highest priority is preferred."""
    if settings.custom_metrics:
        for position, version in enumerate(reversed(METRICS_API_VERSIONS), 1):
            yield METRICS_API_GROUP, version, position * _STEP
    yield USAGE_API_GROUP, USAGE_API_VERSION, _STEP


def _api_service(group: str, version: str, priority: int, settings: MetricsApi) -> Object:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}", **https_server.ca_metadata(settings)},
        "spec": {
            "service": https_server.service_reference(METRICS_API_NAME),
            "group": group,
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
        made_secret=METRICS_TLS_SECRET,
    )
