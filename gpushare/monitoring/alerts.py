"""What people are told about: conditions that should not be, how bad they are, and where to read on.

What belongs here: alerts, as values. What does not: what to do about them (the page of runbooks, with one
section for each) and who is told, which is Alertmanager's.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from gpushare.model.readings import UNCOUNTED_BYTES, UNCOUNTED_SHARE
from gpushare.monitoring import catalogue as names
from gpushare.monitoring import rules

Severity = Literal["critical", "warning", "info"]
RUNBOOKS: Final = "docs/how-to/runbooks.md"
"""One page, with a section of each alert's name."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. ``lasts`` is for how long the query must find something, a duration of Prometheus.

    ``summary`` is a template of Prometheus, which may name the labels of what was found.
    """

    name: str
    severity: Severity
    expr: str
    summary: str
    lasts: str = "0s"

    @property
    def runbook(self) -> str:
        """The page and section that say what to do."""
        return f"{RUNBOOKS}#{self.name.lower()}"


_GIVEN_TO: Final = "{{ $labels.namespace }}/{{ $labels.pod }}"
_CARD: Final = "card {{ $labels.card }} of node {{ $labels.node }}"
_WAS_OURS: Final = "\nor ".join(
    f"last_over_time({metric}[1h])"
    for metric in (names.EXTENDER_LEADS, names.PLUGIN_NVML_UP, names.SNAPSHOT_AT, names.API_SYNCED)
)
_DRIFT: Final = (
    f"abs(\n  max by (node, card) ({rules.CARD_ALLOCATED})\n  / max by (node, card) ({names.CARD_MEMORY})"
    f" * {rules.CARD_UNITS}\n  - ({rules.CARD_UNITS} - {rules.CARD_FREE})\n) > 0.5"
)
"""Half a unit: the bytes of a share are rounded down, by far less."""

ALERTS: Final = (
    Alert(
        "GpuShareExtenderDown",
        "critical",
        f"absent({names.EXTENDER_LEADS})",
        "No extender answers: pods that ask for GPU memory stay pending.",
        "5m",
    ),
    Alert(
        "GpuShareNoBinder",
        "critical",
        f"sum({names.EXTENDER_LEADS}) == 0",
        "No extender may bind: none holds the Lease, and pods that ask for GPU memory stay pending.",
        "2m",
    ),
    Alert(
        "GpuShareManyBinders",
        "critical",
        f"sum({names.EXTENDER_LEADS}) > 1",
        "{{ $value }} extenders take themselves for the one that may bind.",
        "2m",
    ),
    Alert(
        "GpuShareBindsFail",
        "warning",
        f'sum(rate({names.EXTENDER_REQUESTS}{{verb="bind",result="error"}}[10m]))'
        f'\n/ sum(rate({names.EXTENDER_REQUESTS}{{verb="bind"}}[10m])) > 0.5',
        "{{ $value | humanizePercentage }} of the binds fail.",
        "10m",
    ),
    Alert(
        "GpuShareOvercommitted",
        "critical",
        f"max(max_over_time({names.CARDS_OVERCOMMITTED}[1h])) > 0",
        "{{ $value }} cards were promised beyond their size within the last hour.",
    ),
    Alert(
        "GpuShareLedgerDrift",
        "warning",
        _DRIFT,
        "The extender's ledger is {{ $value | humanize }} units away from what containers were given on "
        f"{_CARD}.",
        "10m",
    ),
    Alert(
        "GpuShareCardUnhealthy",
        "critical",
        f'{names.PLUGIN_CARDS}{{state="unhealthy"}} > 0',
        "The node agent {{ $labels.instance }} has {{ $value }} unhealthy cards: no pod is placed on them.",
        "1m",
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
        "The kubelet does not listen to the node agent {{ $labels.instance }} for {{ $labels.resource }}: "
        "no new pod starts there.",
        "5m",
    ),
    Alert(
        "GpuShareTargetDown",
        "warning",
        f"up == 0 and on (job, instance) (\n{_WAS_OURS}\n)",
        "{{ $labels.instance }} ({{ $labels.job }}) does not answer scrapes.",
        "5m",
    ),
    Alert(
        "GpuShareSourceDown",
        "warning",
        f"{names.SOURCE_UP} == 0",
        "{{ $labels.source }} does not answer the exporter {{ $labels.instance }}: its series are missing.",
        "10m",
    ),
    Alert(
        "GpuShareMemoryNearLimit",
        "warning",
        f"{names.CONTAINER_USED}\n/ ({names.CONTAINER_ALLOCATED}"
        f"\n< on (node, card) group_left max by (node, card) ({names.CARD_MEMORY})) > 0.95",
        f"Container {{{{ $labels.container }}}} of {_GIVEN_TO} uses {{{{ $value | humanizePercentage }}}} "
        f"of its share of {_CARD}.",
        "5m",
    ),
    Alert(
        "GpuShareMemoryUncounted",
        "warning",
        f"{names.CONTAINER_UNCOUNTED} > {UNCOUNTED_BYTES}\n"
        f"and {names.CONTAINER_UNCOUNTED} > {UNCOUNTED_SHARE} * {names.CONTAINER_LIMIT}",
        f"Container {{{{ $labels.container }}}} of {_GIVEN_TO} uses {{{{ $value | humanize1024 }}}}B "
        f"of {_CARD} that the isolation library has not counted.",
        "5m",
    ),
    Alert(
        "GpuShareMemoryRefused",
        "info",
        f"increase({names.CONTAINER_REFUSALS}[10m]) > 0",
        f"Container {{{{ $labels.container }}}} of {_GIVEN_TO} has been refused memory of {_CARD} again and "
        "again for half an hour.",
        "30m",
    ),
    Alert(
        "GpuShareProcessNotHeld",
        "warning",
        f"{names.CARD_UNHELD} > 0",
        f"{{{{ $value }}}} processes on {_CARD} are held to no limit, beside containers that are.",
        "5m",
    ),
    Alert(
        "GpuSharePacingStale",
        "warning",
        f"{names.PLUGIN_SAMPLE_AGE} > 60",
        "The node agent {{ $labels.instance }} has not measured for {{ $value | humanizeDuration }} how busy "
        "its containers keep their cards: their parts of the cards' time are held by old rates.",
        "5m",
    ),
    Alert(
        "GpuShareMpsDown",
        "critical",
        f"{names.MPS_UP} == 0",
        "The MPS control daemon of card {{ $labels.uuid }} on {{ $labels.instance }} does not answer: CUDA "
        "programs there may have failed, and no new ones start.",
        "1m",
    ),
    Alert(
        "GpuShareMpsRestarts",
        "warning",
        f"increase({names.MPS_STARTS}[30m]) > 2",
        "The MPS control daemon of card {{ $labels.uuid }} on {{ $labels.instance }} ends again and again.",
    ),
    Alert(
        "GpuShareIdle",
        "info",
        f"{rules.POD_COMPUTE} == 0 and {rules.POD_ALLOCATED} > 0",
        f"{_GIVEN_TO} on node {{{{ $labels.node }}}} holds GPU memory and has computed nothing for an hour.",
        "1h",
    ),
    Alert(
        "GpuShareFragmented",
        "warning",
        f"min({names.PENDING_LEAST}) > {rules.CLUSTER_LARGEST_FREE}\n"
        f"and min({names.PENDING_LEAST}) <= {rules.CLUSTER_FREE}",
        "A pod waits for {{ $value }} units on one card: as many are free in all, but no card has them.",
        "15m",
    ),
)


def document() -> dict[str, Any]:
    """Prometheus' rule file."""
    return {"groups": [{"name": "gpushare.alerts", "rules": [_entry(alert) for alert in ALERTS]}]}


def _entry(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook": alert.runbook},
    }
