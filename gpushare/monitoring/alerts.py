"""Alerts: condition, severity and runbook of each.

Remedies belong in the runbooks (one section per alert), routing in Alertmanager.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from gpushare.model.readings import UNCOUNTED_BYTES, UNCOUNTED_SHARE
from gpushare.monitoring import catalogue as names
from gpushare.monitoring import rules

Severity = Literal["critical", "warning", "info"]
RUNBOOKS: Final = "docs/how-to/runbooks.md"
"""One page with one section per alert."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. ``lasts`` is how long the expression must hold, a Prometheus duration.

    ``summary`` is a Prometheus template, which may use the labels of the result.
    """

    name: str
    severity: Severity
    expr: str
    summary: str
    lasts: str = "0s"

    @property
    def runbook(self) -> str:
        """Return the page and anchor of the runbook."""
        return f"{RUNBOOKS}#{self.name.lower()}"


_POD: Final = "{{ $labels.namespace }}/{{ $labels.pod }}"
_CARD: Final = "GPU {{ $labels.card }} of node {{ $labels.node }}"
_SEEN_RECENTLY: Final = "\nor ".join(
    f"last_over_time({metric}[1h])"
    for metric in (names.EXTENDER_LEADS, names.PLUGIN_NVML_UP, names.SNAPSHOT_AT, names.API_SYNCED)
)
_DRIFT: Final = (
    f"abs(\n  max by (node, card) ({rules.CARD_ALLOCATED})\n  / max by (node, card) ({names.CARD_MEMORY})"
    f" * {rules.CARD_UNITS}\n  - ({rules.CARD_UNITS} - {rules.CARD_FREE})\n) > 0.5"
)
"""Half a unit: rounding down the bytes of an allocation makes a far smaller difference."""

_EXPIRES: Final = (
    "Certificate {{ $labels.certificate }} between kube-scheduler and the extender expires in "
    "{{ $value | humanizeDuration }}: then pods that request GPU memory stay pending."
)
_DAY_S: Final = 86_400


def _expires_within(days: int) -> str:
    """Of a client, the last certificate that any replica has seen: others may have had no call since."""
    expiry = names.EXTENDER_CERTIFICATE_EXPIRY
    return (
        f'(\n  min by (certificate) ({expiry}{{certificate="server"}})'
        f'\n  or max by (certificate) ({expiry}{{certificate!="server"}})\n) - time() < {days * _DAY_S}'
    )


ALERTS: Final = (
    Alert(
        "GpuShareExtenderDown",
        "critical",
        f"absent({names.EXTENDER_LEADS})",
        "No extender responds: pods that request GPU memory stay pending.",
        "5m",
    ),
    Alert(
        "GpuShareNoBinder",
        "critical",
        f"sum({names.EXTENDER_LEADS}) == 0",
        "No extender replica is the leader: pods that request GPU memory stay pending.",
        "2m",
    ),
    Alert(
        "GpuShareManyBinders",
        "critical",
        f"sum({names.EXTENDER_LEADS}) > 1",
        "{{ $value }} extender replicas believe they are the leader.",
        "2m",
    ),
    Alert(
        "GpuShareBindsFail",
        "warning",
        f'sum(rate({names.EXTENDER_REQUESTS}{{verb="bind",result="error"}}[10m]))'
        f'\n/ sum(rate({names.EXTENDER_REQUESTS}{{verb="bind"}}[10m])) > 0.5',
        "{{ $value | humanizePercentage }} of binds fail.",
        "10m",
    ),
    Alert(
        "GpuShareCertificateExpires",
        "warning",
        _expires_within(30),
        _EXPIRES,
        "1h",
    ),
    Alert(
        "GpuShareCertificateExpiresSoon",
        "critical",
        _expires_within(7),
        _EXPIRES,
        "10m",
    ),
    Alert(
        "GpuShareOvercommitted",
        "critical",
        f"max(max_over_time({names.CARDS_OVERCOMMITTED}[1h])) > 0",
        "{{ $value }} GPUs were over-committed within the last hour: more units reserved than they have.",
    ),
    Alert(
        "GpuShareLedgerDrift",
        "warning",
        _DRIFT,
        "The extender's ledger and the allocations of containers differ by {{ $value | humanize }} units on "
        f"{_CARD}.",
        "10m",
    ),
    Alert(
        "GpuShareCardUnhealthy",
        "critical",
        f'{names.PLUGIN_CARDS}{{state="unhealthy"}} > 0',
        "Node agent {{ $labels.instance }} reports {{ $value }} unhealthy GPUs: no pods are placed on them.",
        "1m",
    ),
    Alert(
        "GpuShareDriverDown",
        "critical",
        f"{names.PLUGIN_NVML_UP} == 0",
        "The NVIDIA driver does not respond to node agent {{ $labels.instance }}: no new GPU pods start "
        "there.",
        "2m",
    ),
    Alert(
        "GpuShareCardXid",
        "warning",
        f"increase({names.CARD_XIDS}[15m]) > 0\nor\n({names.CARD_XIDS} unless {names.CARD_XIDS} offset 15m)",
        f"The driver reported XID {{{{ $labels.xid }}}} for {_CARD}.",
    ),
    Alert(
        "GpuSharePluginNotRegistered",
        "critical",
        f"{names.PLUGIN_REGISTERED} == 0",
        "The kubelet does not watch the devices {{ $labels.resource }} of node agent {{ $labels.instance }}: "
        "no new GPU pods start there.",
        "5m",
    ),
    Alert(
        "GpuShareTargetDown",
        "warning",
        f"up == 0 and on (job, instance) (\n{_SEEN_RECENTLY}\n)",
        "{{ $labels.instance }} ({{ $labels.job }}) does not respond to scrapes.",
        "5m",
    ),
    Alert(
        "GpuShareSourceDown",
        "warning",
        f"{names.SOURCE_UP} == 0",
        "Source {{ $labels.source }} of exporter {{ $labels.instance }} does not respond: its series are "
        "missing.",
        "10m",
    ),
    Alert(
        "GpuShareMemoryNearLimit",
        "warning",
        f"{names.CONTAINER_USED}\n/ ({names.CONTAINER_ALLOCATED}"
        f"\n< on (node, card) group_left max by (node, card) ({names.CARD_MEMORY})) > 0.95",
        f"Container {{{{ $labels.container }}}} of {_POD} uses {{{{ $value | humanizePercentage }}}} "
        f"of its memory limit on {_CARD}.",
        "5m",
    ),
    Alert(
        "GpuShareMemoryUncounted",
        "warning",
        f"{names.CONTAINER_UNCOUNTED} > {UNCOUNTED_BYTES}\n"
        f"and {names.CONTAINER_UNCOUNTED} > {UNCOUNTED_SHARE} * {names.CONTAINER_LIMIT}",
        f"Container {{{{ $labels.container }}}} of {_POD} uses {{{{ $value | humanize1024 }}}}B "
        f"on {_CARD} that the isolation library does not count.",
        "5m",
    ),
    Alert(
        "GpuShareMemoryRefused",
        "info",
        f"increase({names.CONTAINER_REFUSALS}[10m]) > 0",
        f"Container {{{{ $labels.container }}}} of {_POD} has repeatedly been refused memory on {_CARD} "
        "for half an hour.",
        "30m",
    ),
    Alert(
        "GpuShareProcessNotHeld",
        "warning",
        f"{names.CARD_UNHELD} > 0",
        f"{{{{ $value }}}} processes on {_CARD} run without a limit beside containers with enforced limits.",
        "5m",
    ),
    Alert(
        "GpuSharePacingStale",
        "warning",
        f"{names.PLUGIN_SAMPLE_AGE} > 60",
        "Node agent {{ $labels.instance }} has not sampled utilization for {{ $value | humanizeDuration }}: "
        "compute shares are enforced with outdated launch rates.",
        "5m",
    ),
    Alert(
        "GpuShareRegionResized",
        "warning",
        f"increase({names.PLUGIN_REGIONS}[15m]) > 0\nor\n"
        f"({names.PLUGIN_REGIONS} unless {names.PLUGIN_REGIONS} offset 15m)",
        "Containers on node agent {{ $labels.instance }} change the size of regions ({{ $labels.change }}).",
    ),
    Alert(
        "GpuShareMpsDown",
        "critical",
        f"{names.MPS_UP} == 0",
        "The MPS control daemon of GPU {{ $labels.uuid }} on {{ $labels.instance }} does not respond: CUDA "
        "programs there may have failed, and new ones cannot start.",
        "1m",
    ),
    Alert(
        "GpuShareMpsRestarts",
        "warning",
        f"increase({names.MPS_STARTS}[30m]) > 2",
        "The MPS control daemon of GPU {{ $labels.uuid }} on {{ $labels.instance }} restarts repeatedly.",
    ),
    Alert(
        "GpuShareIdle",
        "info",
        f"{rules.POD_COMPUTE} == 0 and {rules.POD_ALLOCATED} > 0",
        f"{_POD} on node {{{{ $labels.node }}}} has GPU memory allocated but has been idle for an hour.",
        "1h",
    ),
    Alert(
        "GpuShareFragmented",
        "warning",
        f"min({names.PENDING_LEAST}) > {rules.CLUSTER_LARGEST_FREE}\n"
        f"and min({names.PENDING_LEAST}) <= {rules.CLUSTER_FREE}",
        "A pod waits for {{ $value }} units on one GPU: that many are free in total, but on no single GPU.",
        "15m",
    ),
)


def document() -> dict[str, Any]:
    """Return Prometheus' rule file."""
    return {"groups": [{"name": "gpushare.alerts", "rules": [_entry(alert) for alert in ALERTS]}]}


def _entry(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook": alert.runbook},
    }
