"""The parts of a pod that kube-scheduler compares with nodes, besides labels and taints."""

from typing import Any

from msgspec import Struct, field

from gpushare.adapters.kube.wire import PodContainer, PodResources
from gpushare.overview.affinity import LabelSelector


class ClusterResources(PodResources):
    """``requests`` has every limit too: the API server copies those that are not requested."""

    requests: dict[str, Any] | None = None


class ContainerPort(Struct, rename="camel"):
    """A port; ``host_port`` is 0 if the container does not need it on the node."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(default="", name="hostIP")


class ClusterContainer(PodContainer, rename="camel"):
    """A container with all its requests."""

    resources: ClusterResources | None = None
    ports: list[ContainerPort] | None = None

    @property
    def requests(self) -> dict[str, Any]:
        """The requests by resource."""
        return (self.resources.requests if self.resources else None) or {}


class PodTotals(Struct):
    """Requests of the pod as a whole, which replace the sums of its containers."""

    requests: dict[str, Any] | None = None


class _ClaimSource(Struct, rename="camel"):
    claim_name: str = ""


class PodVolume(Struct, rename="camel"):
    """A volume, of which only claims are read; ``ephemeral`` is set if the pod has a claim of its own."""

    name: str = ""
    persistent_volume_claim: _ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None


class SpreadConstraint(Struct, rename="camel"):
    """A topology spread constraint."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: list[str] | None = None
