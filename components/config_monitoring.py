"""The settings of what shows the use of the cards, as ``components.config`` has the others."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gpushare.contract import (
    LABEL_CARD_MODEL,
    LABEL_CGPU,
    LABEL_GPU_PRESENT,
    LABEL_GPUSHARE,
    LABEL_MODE,
    LABELS_PCI_PRESENT,
)

NODES_WITH_CARDS: Final = (
    f"{LABEL_GPUSHARE}=true",
    f"{LABEL_CGPU}=true",
    LABEL_MODE,
    LABEL_CARD_MODEL,
    *(f"{label}=true" for label in (LABEL_GPU_PRESENT, *LABELS_PCI_PRESENT)),
)
"""Those that share their cards, those of a known model, and those on which a discovery found cards."""


class MetricsSource(StrEnum):
    """Whom the metrics API asks."""

    EXPORTERS = "exporters"
    PROMETHEUS = "prometheus"


@dataclass(frozen=True, slots=True)
class Exporter:
    """What shows, on every node with cards, what cards and containers do."""

    image: str = ""
    """By digest; where empty, ``images`` has it as ``exporter``."""
    node_labels: tuple[str, ...] = NODES_WITH_CARDS
    """Where it runs: on nodes with any one of these labels, ``key`` or ``key=value``. A list replaces the
    default one."""
    interval_seconds: int = 15
    """How often everything is read."""
    kubelet_root: str = "/var/lib/kubelet"
    """The kubelet's root folder on the nodes."""
    runtime_class: str | None = None
    """A RuntimeClass with NVIDIA's runtime, where that is not the nodes' default."""
    cpu: str = "200m"
    """Cores, requested and limit."""
    memory: str = "200Mi"
    """Requested and limit."""


@dataclass(frozen=True, slots=True)
class MetricsApi:
    """What answers ``custom.metrics.k8s.io``: the HPA scales on the use of cards without an adapter."""

    tls_secret: str
    """Secret of kube-system with ``tls.crt`` and ``tls.key`` for ``gpushare-metrics-api.kube-system.svc``."""
    ca_bundle: str
    """The certificates, as PEM, of who signed it: by these the API server knows the metrics API."""
    image: str = ""
    """By digest; where empty, ``images`` has it as ``metrics-api``."""
    replicas: int = 1
    """How many answer."""
    source: MetricsSource = MetricsSource.EXPORTERS
    """``exporters``: the exporters are asked. ``prometheus``: Prometheus is, by PromQL."""
    prometheus_url: str = ""
    """Of Prometheus, where that is the source."""
    cpu: str = "500m"
    """Cores, requested and limit."""
    memory: str = "256Mi"
    """Requested and limit."""


@dataclass(frozen=True, slots=True)
class Monitoring:
    """What shows the use of the cards."""

    exporter: Exporter = field(default_factory=Exporter)
    """On the nodes; ``{}`` where its defaults and ``images`` say it all."""
    metrics_api: MetricsApi | None = None
    """For the HPA, where prometheus-adapter does not answer the same API."""
    adapter_rules: bool = False
    """Whether there is a ConfigMap with the source documents' rules for prometheus-adapter."""
    operator: bool = False
    """Whether scrapes, rules and alerts are objects of the Prometheus Operator; a ConfigMap otherwise."""
    dashboards: bool = True
    """Whether there are ConfigMaps with dashboards, which Grafana's sidecar finds by their label."""
