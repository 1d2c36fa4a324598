"""What the cluster is, and whether the settings fit. Pure; ``components.preflight`` asks the cluster."""

from dataclasses import dataclass
from typing import Final

from components.config import Stack
from components.config_extender import Exposure
from components.config_pods import control_plane_labels
from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import KubernetesVersion

OPERATOR_API: Final = "monitoring.coreos.com/v1"
"""The API of the Prometheus Operator; its CRDs must exist before objects of their kinds."""
_INSTALL_OPERATOR: Final = "install the Prometheus Operator first, or set monitoring.operator: false"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What an API server has answered. None is unknown, because the account may not list nodes."""

    version: KubernetesVersion
    apis: frozenset[str]
    """API groups with their versions, like ``apps/v1``."""
    nodes: int | None = None
    """Number of nodes."""
    control_planes: int | None = None
    """Number of nodes with a label of control planes."""
    uid: str | None = None
    """UID of the namespace kube-system, which no other cluster has."""


def check_cluster(settings: Stack, cluster: Cluster) -> None:
    """Checks the settings against the cluster. Raises ConfigError for the first violation."""
    if settings.cluster_uid and settings.cluster_uid != cluster.uid:
        found = cluster.uid or "not readable for this account"
        raise ConfigError(
            f"clusterUid: {settings.cluster_uid}, but the UID of kube-system in the cluster is {found}; "
            "check kubeconfig and context"
        )
    if settings.kubernetes_version != cluster.version:
        raise ConfigError(
            f"kubernetesVersion: {settings.kubernetes_version}, but the version of the cluster is "
            f'{cluster.version}; set "{cluster.version}", or check kubeconfig and context'
        )
    if settings.monitoring and settings.monitoring.operator and OPERATOR_API not in cluster.apis:
        raise ConfigError(
            f"monitoring.operator: true, but the cluster has no {OPERATOR_API}; {_INSTALL_OPERATOR}"
        )
    if cluster.nodes and cluster.control_planes is not None:
        _check_control_planes(settings, cluster.nodes, cluster.control_planes)


def advice_on(settings: Stack, cluster: Cluster) -> list[str]:
    """What may keep valid settings from working as the cluster is now; more nodes may come."""
    replicas, nodes = settings.extender.replicas, cluster.nodes
    if not nodes or replicas <= nodes:
        return []
    text = (
        f"extender.replicas: {replicas}, each on a separate node, but the cluster has {nodes}: the others "
        "stay Pending until there are more; use 1, or add nodes"
    )
    return [text]


def _check_control_planes(settings: Stack, nodes: int, found: int) -> None:
    """A pod that needs a separate control plane node and gets none is awaited until the timeout."""
    extender = settings.extender
    have = "have" if found > 1 else "has"
    labels = " or ".join(control_plane_labels(settings.kubernetes_version))
    where = f"{found or 'none'} of {nodes} nodes {have} the label {labels}"
    if extender.exposure is Exposure.NODE_PORT and not found:
        raise ConfigError(
            f"extender.exposure: {extender.exposure} runs on control plane nodes, but {where}; "
            f"use {Exposure.SIDECAR} for a managed control plane"
        )
    if extender.exposure is Exposure.NODE_PORT and extender.replicas > found:
        raise ConfigError(
            f"extender.replicas: {extender.replicas}, but with exposure {extender.exposure} each needs a "
            f"separate control plane node, and {where}; use {found}, or exposure {Exposure.CLUSTER_IP} or "
            f"{Exposure.SIDECAR}"
        )
    if settings.installer:
        _check_installer(settings.installer.control_planes, found, where)


def _check_installer(count: int, found: int, where: str) -> None:
    """A scheduler that is not edited places pods without the extender once it leads."""
    use = f"use {found}" if found else "remove installer"
    if count > found:
        raise ConfigError(
            f"installer.controlPlanes: {count}, but each pod of the Job needs a separate control plane node, "
            f"and {where}; {use}"
        )
    if count < found:
        raise ConfigError(
            f"installer.controlPlanes: {count}, but {where}: the schedulers of the others would place pods "
            f"without the extender; {use}"
        )
