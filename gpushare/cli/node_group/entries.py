"""Tags, labels and annotations from which Cluster Autoscaler makes the template of an empty group.

Read in its sources at commit b7bb87ea of 2026-05-25: ``cloudprovider/aws/aws_manager.go``,
``azure/azure_template.go``, ``gce/templates.go`` and ``clusterapi/clusterapi_utils.go``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gpushare.contract import (
    CORE_PER_CARD,
    LABEL_CARD_COUNT,
    LABEL_CGPU,
    LABEL_GPUSHARE,
    LABEL_MODE,
    RESOURCE_CORE,
    RESOURCE_COUNT,
    RESOURCE_MEM,
)
from gpushare.errors import InvalidRequest
from gpushare.model.modes import WITH_CORE, mode_of

_AWS: Final = "k8s.io/cluster-autoscaler/node-template"
_AZURE: Final = "k8s.io_cluster-autoscaler_node-template"
_GKE: Final = "clusterautoscaler-nodetemplate-resources"
_CLUSTER_API: Final = "capacity.cluster-autoscaler.kubernetes.io"


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of one kind: their GPUs, the units of each GPU, and the labels of the nodes."""

    gpus: int
    units: int
    labels: Mapping[str, str]

    @property
    def resources(self) -> dict[str, str]:
        """The extended resources of a node, as kubelet and agent report them."""
        found = {RESOURCE_MEM: str(self.gpus * self.units), RESOURCE_COUNT: str(self.gpus)}
        mode, _ = mode_of(self.labels)
        return found | ({RESOURCE_CORE: str(self.gpus * CORE_PER_CARD)} if mode in WITH_CORE else {})


def group_of(gpus: int, units: int, labels: Mapping[str, str]) -> NodeGroup:
    """The group; its nodes share memory unless a label selects a mode. Raises InvalidRequest."""
    shared = any(key in labels for key in (LABEL_GPUSHARE, LABEL_CGPU, LABEL_MODE))
    labels = labels if shared else {LABEL_GPUSHARE: "true", **labels}
    if problem := mode_of(labels)[1]:
        raise InvalidRequest(f"nodes of this group share no GPU: {problem}")
    return NodeGroup(gpus, units, labels)


def _aws(group: NodeGroup) -> dict[str, str]:
    """Tags of the Auto Scaling group, or of the managed node group of EKS."""
    labels = {f"{_AWS}/label/{key}": value for key, value in group.labels.items()}
    return labels | {f"{_AWS}/resources/{name}": amount for name, amount in group.resources.items()}


def _azure(group: NodeGroup) -> dict[str, str]:
    """Tags of the scale set, whose keys have no slash."""
    labels = {f"{_AZURE}_label_{_azure_key(key)}": value for key, value in group.labels.items()}
    resources = group.resources.items()
    return labels | {f"{_AZURE}_resources_{_azure_key(name)}": amount for name, amount in resources}


def _azure_key(key: str) -> str:
    return key.replace("_", "~2").replace("/", "_")


def _gke(group: NodeGroup) -> dict[str, str]:
    """Labels of the nodes: those of the group, and some that stand for resources."""
    return {**group.labels, **{f"{_GKE}.{name}": amount for name, amount in group.resources.items()}}


def _cluster_api(group: NodeGroup) -> dict[str, str]:
    """Annotations of a MachineDeployment or MachineSet.

    They state one extended resource; the extender reads the number of GPUs in a label.
    """
    labels = {**group.labels, LABEL_CARD_COUNT: str(group.gpus)}
    return {
        f"{_CLUSTER_API}/gpu-type": RESOURCE_MEM,
        f"{_CLUSTER_API}/gpu-count": group.resources[RESOURCE_MEM],
        f"{_CLUSTER_API}/labels": ",".join(f"{key}={value}" for key, value in labels.items()),
    }


PROVIDERS: Final[Mapping[str, Callable[[NodeGroup], dict[str, str]]]] = {
    "aws": _aws,
    "azure": _azure,
    "gke": _gke,
    "cluster-api": _cluster_api,
}
