"""An HTTPS server that the API server or users call: Deployment, Service and disruption budget."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from components.config_extender import Webhook
from components.config_monitoring import Board, MetricsApi
from components.manifests.parts import (
    NON_ROOT,
    OPS,
    Object,
    container_security,
    deployment,
    disruption_budgets,
    http_probes,
    labels,
    non_root_security,
    placement,
    preferred_anti_affinity,
    service,
    sizes,
    zone_spread,
)
from components.options import arguments
from gpushare.contract import SYSTEM_NAMESPACE
from gpushare.kubescheduler.config import KubernetesVersion

_TLS_FOLDER: Final = "/etc/gpushare/tls"
_HTTPS: Final = 443
_INJECT: Final = "cert-manager.io/inject-ca-from"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A program and its ports."""

    name: str
    """Name of all objects, and of the account."""
    image: str
    command: Sequence[str]
    """The options of its section are added, which include those of the certificate."""
    port: int
    ops_port: int
    replicas: int
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables besides those of the ports."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Options besides those of the certificate."""
    has_token: bool
    """Whether it calls the API server."""
    made_secret: str = ""
    """The Secret that a Job of the stack fills, if the settings name none."""


def objects(
    server: Server, settings: MetricsApi | Webhook | Board, version: KubernetesVersion
) -> list[Object]:
    """All objects except for the account and its rights."""
    port = {"name": "https", "port": _HTTPS, "targetPort": server.port}
    return [
        deployment(server.name, server.replicas, _pod(server, settings, version)),
        service(server.name, port),
        *disruption_budgets(server.name, server.replicas, version),
    ]


def service_reference(server: str) -> Object:
    """The Service, for an object of the API server."""
    return {"name": server, "namespace": SYSTEM_NAMESPACE, "port": _HTTPS}


def ca_metadata(settings: MetricsApi | Webhook) -> Object:
    """Metadata by which cert-manager writes the CA certificates, if it should."""
    return {"annotations": {_INJECT: settings.inject_ca_from}} if settings.inject_ca_from else {}


def ca_bundle(settings: MetricsApi | Webhook) -> Object:
    """The CA certificates, unless cert-manager or the Job of the stack writes them."""
    if not settings.ca_bundle:
        return {}
    return {"caBundle": base64.b64encode(settings.ca_bundle.encode()).decode()}


def _pod(server: Server, settings: MetricsApi | Webhook | Board, version: KubernetesVersion) -> Object:
    secret = settings.tls_secret or server.made_secret
    return {
        "serviceAccountName": server.name,
        **({} if server.has_token else {"automountServiceAccountToken": False}),
        **placement(settings.tolerations, settings.priority_class),
        "affinity": {"podAntiAffinity": preferred_anti_affinity(labels(server.name))},
        **zone_spread(labels(server.name), server.replicas, version),
        # The files of the Secret belong to the group.
        "securityContext": {**non_root_security(version), "fsGroup": NON_ROOT},
        "containers": [_container(server, settings)],
        "volumes": [{"name": "tls", "secret": {"secretName": secret, "defaultMode": 0o440}}],
    }


def _container(server: Server, settings: MetricsApi | Webhook | Board) -> Object:
    files = {"tls_cert": f"{_TLS_FOLDER}/tls.crt", "tls_key": f"{_TLS_FOLDER}/tls.key"}
    ports = {"https": server.port, OPS: server.ops_port}
    env = {"PORT": str(server.port), "OPS_PORT": str(server.ops_port), **server.env}
    return {
        "name": server.name,
        "image": server.image,
        "command": [*server.command, *arguments(settings, **server.options, **files)],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
        **http_probes("/healthz", "/readyz", OPS),
        "resources": sizes(settings.cpu, settings.memory),
        "securityContext": container_security(),
        "volumeMounts": [{"name": "tls", "mountPath": _TLS_FOLDER, "readOnly": True}],
    }
