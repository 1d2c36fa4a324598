"""The scheduler extender: account and roles, Deployment, Service, disruption budget.

With ``sidecar`` the pod also has a kube-scheduler (``components.manifests.scheduler``).
"""

from typing import Final

from components.config_extender import Exposure, Extender
from components.manifests import scheduler
from components.manifests.certificates import tls_secret
from components.manifests.parts import (
    NON_ROOT,
    OPS,
    Object,
    account_with_rights,
    container_security,
    control_plane_terms,
    deployment,
    disruption_budgets,
    field_env,
    filling,
    http_probes,
    labels,
    non_root_security,
    placement,
    required_anti_affinity,
    rule,
    service,
    sizes,
    zone_spread,
)
from components.options import arguments
from gpushare.contract import (
    EXTENDER_NAME,
    EXTENDER_NODE_PORT,
    EXTENDER_OPS_PORT,
    EXTENDER_PEER_PORT,
    EXTENDER_PREFIX,
    EXTENDER_SERVICE_PORT,
    SEAL_SECRET,
    SYSTEM_NAMESPACE,
    TLS_CA,
    TLS_CERT,
    TLS_KEY,
)
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.model.options import ClusterPlacement, MakeRoom

_LABELS: Final = labels(EXTENDER_NAME)
_TLS_FOLDER: Final = "/etc/gpushare/tls"
_BINDS_END_EARLY: Final = KubernetesVersion(1, 21)
"""From this version on, the API server ends a bind request when the extender gives it up."""
_BIND_IN_OLD_CLUSTERS_S: Final = 60


def objects(settings: Extender, version: KubernetesVersion) -> list[Object]:
    """All objects of the extender."""
    is_sidecar = settings.exposure is Exposure.SIDECAR
    return [
        *_account(settings),
        *(scheduler.objects(settings, version) if is_sidecar else []),
        deployment(
            EXTENDER_NAME,
            settings.replicas,
            _pod(settings, version),
            strategy=_strategy(settings),
            annotations=scheduler.config_mark(settings, version) if is_sidecar else None,
        ),
        *([] if is_sidecar else [_service(settings)]),
        *disruption_budgets(EXTENDER_NAME, settings.replicas, version),
    ]


def url(settings: Extender) -> str:
    """URL of the extender for a kube-scheduler on one of its nodes or in its pod."""
    is_sidecar = settings.exposure is Exposure.SIDECAR
    scheme = "https" if tls_secret(settings) and not is_sidecar else "http"
    service = f"{EXTENDER_NAME}.{SYSTEM_NAMESPACE}.svc"
    address = {
        Exposure.NODE_PORT: f"127.0.0.1:{EXTENDER_NODE_PORT}",
        Exposure.CLUSTER_IP: f"{service}:{EXTENDER_SERVICE_PORT}",
        Exposure.SIDECAR: f"127.0.0.1:{EXTENDER_SERVICE_PORT}",
    }
    return f"{scheme}://{address[settings.exposure]}{EXTENDER_PREFIX}"


def _account(settings: Extender) -> list[Object]:
    leases = [
        # `create` by POST cannot be limited to a name.
        rule("coordination.k8s.io", ["leases"], ["create"]),
        rule("coordination.k8s.io", ["leases"], ["get", "update"], names=[EXTENDER_NAME]),
    ]
    return account_with_rights(
        EXTENDER_NAME,
        cluster=[
            rule("", ["nodes"], ["list", "watch"]),
            rule("", ["pods"], ["get", "list", "watch"]),
            rule("", ["pods/binding", "events"], ["create"]),
            *([rule("", ["pods/eviction"], ["create"])] if settings.make_room is MakeRoom.EVICT else []),
            rule("policy", ["poddisruptionbudgets"], ["list", "watch"]),
        ],
        system=[
            rule("", ["configmaps"], ["list", "watch"]),
            *(leases if settings.lease else []),
            filling(SEAL_SECRET),
        ],
    )


def _service(settings: Extender) -> Object:
    port = {"name": "http", "port": EXTENDER_SERVICE_PORT, "targetPort": EXTENDER_SERVICE_PORT}
    if settings.exposure is Exposure.NODE_PORT:
        return service(EXTENDER_NAME, port | {"nodePort": EXTENDER_NODE_PORT}, "NodePort")
    return service(EXTENDER_NAME, port)


def _strategy(settings: Extender) -> Object:
    """Never two pods on one node: they would need the same host port, and fail together."""
    if settings.replicas == 1:
        return {"type": "Recreate"}
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def _pod(settings: Extender, version: KubernetesVersion) -> Object:
    owner = {"fsGroup": NON_ROOT} if tls_secret(settings) else {}
    beside = [scheduler.container(settings)] if settings.exposure is Exposure.SIDECAR else []
    return {
        "serviceAccountName": EXTENDER_NAME,
        **({"hostNetwork": True} if settings.exposure is Exposure.NODE_PORT else {}),
        **placement(settings.tolerations, settings.priority_class),
        "affinity": _affinity(settings, version),
        **zone_spread(_LABELS, settings.replicas, version),
        "securityContext": {**non_root_security(version), **owner},
        "containers": [_container(settings, version), *beside],
        **_volumes(settings),
    }


def _affinity(settings: Extender, version: KubernetesVersion) -> Object:
    """On the control plane: required with the host network, else preferred."""
    terms = control_plane_terms(version)
    nodes: Object
    if settings.exposure is Exposure.NODE_PORT:
        nodes = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    else:
        preferences = [{"weight": 100, "preference": term} for term in terms]
        nodes = {"preferredDuringSchedulingIgnoredDuringExecution": preferences}
    return {"nodeAffinity": nodes, "podAntiAffinity": required_anti_affinity(_LABELS)}


def _container(settings: Extender, version: KubernetesVersion) -> Object:
    is_sidecar = settings.exposure is Exposure.SIDECAR
    peers = is_sidecar and settings.replicas > 1
    flags = arguments(
        settings,
        host="127.0.0.1" if is_sidecar else None,
        peer_port=EXTENDER_PEER_PORT if peers else None,
        allow_without_lease=not settings.lease,
        api_request_timeout=None if version >= _BINDS_END_EARLY else _BIND_IN_OLD_CLUSTERS_S,
        shortlist=_SIDECAR_SHORTLIST if is_sidecar and not _compares_all_nodes(settings) else None,
        **_tls_files(settings),
    )
    return {
        "name": EXTENDER_NAME,
        "image": settings.image,
        "command": ["gpushare", "extender", *flags],
        "env": [
            {"name": "LOG_LEVEL", "value": str(settings.log_level)},
            {"name": "PORT", "value": str(EXTENDER_SERVICE_PORT)},
            {"name": "OPS_PORT", "value": str(EXTENDER_OPS_PORT)},
            field_env("POD_NAME", "metadata.name"),
            field_env("POD_IP", "status.podIP"),
        ],
        "ports": [
            {"name": "http", "containerPort": EXTENDER_SERVICE_PORT},
            {"name": OPS, "containerPort": EXTENDER_OPS_PORT},
            *([{"name": "peers", "containerPort": EXTENDER_PEER_PORT}] if peers else []),
        ],
        **http_probes("/healthz", "/readyz", OPS),
        "resources": sizes(settings.cpu, settings.memory),
        "securityContext": container_security(),
        **({"volumeMounts": [_TLS_MOUNT]} if tls_secret(settings) else {}),
    }


_TLS_MOUNT: Final[Object] = {"name": "tls", "mountPath": _TLS_FOLDER, "readOnly": True}


def _compares_all_nodes(settings: Extender) -> bool:
    return settings.placement is ClusterPlacement.REPLAY


_SIDECAR_SHORTLIST: Final = 100
"""The minimum that kube-scheduler itself considers in a large cluster (``minFeasibleNodesToFind``)."""


def _tls_files(settings: Extender) -> dict[str, str]:
    if not tls_secret(settings):
        return {}
    files = {"tls_cert": TLS_CERT, "tls_key": TLS_KEY, "client_ca": TLS_CA}
    return {option: f"{_TLS_FOLDER}/{name}" for option, name in files.items()}


def _volumes(settings: Extender) -> Object:
    config = [scheduler.volume(settings)] if settings.exposure is Exposure.SIDECAR else []
    secret = tls_secret(settings)
    tls = [_tls_volume(secret)] if secret else []
    return {"volumes": [*config, *tls]} if config or tls else {}


def _tls_volume(secret: str) -> Object:
    """Its files belong to the ``fsGroup`` of the pod, which starts once the Secret has them."""
    files = [{"key": key, "path": key} for key in (TLS_CERT, TLS_KEY, TLS_CA)]
    return {"name": "tls", "secret": {"secretName": secret, "defaultMode": 0o440, "items": files}}
