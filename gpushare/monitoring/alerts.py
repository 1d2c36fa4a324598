"""Alerts: condition, severity and runbook of each.

Remedies belong in the runbooks (one section per alert), routing in Alertmanager.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from gpushare.contract import ANN_CLOSED, RUNBOOK_COMMAND
from gpushare.model.readings import UNCOUNTED_BYTES, UNCOUNTED_SHARE
from gpushare.monitoring import catalogue as names
from gpushare.monitoring import rules

Severity = Literal["critical", "warning", "info"]


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
    def anchor(self) -> str:
        """Return the anchor of the runbook on its page."""
        return self.name.lower()


_AGENT: Final = "{{ or $labels.node $labels.instance }}"
"""The node of an agent; scrape configurations of others may not tell it."""
_POD: Final = "{{ $labels.namespace }}/{{ $labels.pod }}"
_CARD: Final = "GPU {{ $labels.card }} of node {{ $labels.node }}"
_SEEN_RECENTLY: Final = "\nor ".join(
    f"last_over_time({metric}[1h])"
    for metric in (names.EXTENDER_LEADS, names.PLUGIN_NVML_UP, names.SNAPSHOT_AT, names.API_SYNCED)
)
_DRIFT: Final = (
    f"abs(\n  max by (cluster, node, card) ({rules.CARD_ALLOCATED})"
    f"\n  / max by (cluster, node, card) ({names.CARD_MEMORY})"
    f" * {rules.CARD_UNITS}\n  - ({rules.CARD_UNITS} - {rules.CARD_FREE})\n) > 0.5"
)
"""Half a unit: rounding down the bytes of an allocation makes a far smaller difference."""

_EXTENDER_MISSING: Final = (
    f"group by (cluster) ({names.PLUGIN_NVML_UP} or last_over_time({names.EXTENDER_LEADS}[1h]))"
    f"\nunless group by (cluster) ({names.EXTENDER_LEADS})\nor absent({names.EXTENDER_LEADS})"
)
"""Of one cluster among several too: it has node agents, or had an extender."""

_EXPIRES: Final = (
    "Certificate {{ $labels.certificate }} between kube-scheduler and the extender expires in "
    "{{ $value | humanizeDuration }}. Pods that request GPU memory stay pending after that. Renew it."
)
_DAY_S: Final = 86_400


def _expires_within(days: int) -> str:
    """Of a client, the last certificate that any replica has seen: others may have had no call since."""
    expiry = names.EXTENDER_CERTIFICATE_EXPIRY
    return (
        f'(\n  min by (cluster, certificate) ({expiry}{{certificate="server"}})'
        f'\n  or max by (cluster, certificate) ({expiry}{{certificate!="server"}})'
        f"\n) - time() < {days * _DAY_S}"
    )


ALERTS: Final = (
    Alert(
        "GpuShareExtenderDown",
        "critical",
        _EXTENDER_MISSING,
        "No extender responds. Pods that request GPU memory stay pending.",
        "5m",
    ),
    Alert(
        "GpuShareNoBinder",
        "critical",
        f"sum by (cluster) ({names.EXTENDER_LEADS}) == 0",
        "No extender replica is the leader. Pods that request GPU memory stay pending.",
        "2m",
    ),
    Alert(
        "GpuShareManyBinders",
        "critical",
        f"sum by (cluster) ({names.EXTENDER_LEADS}) > 1",
        "{{ $value }} extender replicas believe they are the leader.",
        "2m",
    ),
    Alert(
        "GpuShareBindsFail",
        "warning",
        f'sum by (cluster) (rate({names.EXTENDER_REQUESTS}{{verb="bind",result="error"}}[10m]))'
        f'\n/ sum by (cluster) (rate({names.EXTENDER_REQUESTS}{{verb="bind"}}[10m])) > 0.5',
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
        "GpuShareMetricsCertificateExpires",
        "warning",
        f"min by (cluster) ({names.API_CERTIFICATE_EXPIRY}) - time() < {30 * _DAY_S}",
        "The certificate of the metrics API expires in {{ $value | humanizeDuration }}. HPAs get no GPU "
        "metrics after that. Renew it.",
        "1h",
    ),
    Alert(
        "GpuShareWebhookCertificateExpires",
        "warning",
        f"min by (cluster) ({names.NAMING_CERTIFICATE_EXPIRY}) - time() < {30 * _DAY_S}",
        "The certificate of the webhook that names the scheduler expires in {{ $value | humanizeDuration }}. "
        "The default scheduler places new pods that name no scheduler after that. Renew it.",
        "1h",
    ),
    Alert(
        "GpuShareBoardCertificateExpires",
        "warning",
        f"min by (cluster) ({names.BOARD_CERTIFICATE_EXPIRY}) - time() < {30 * _DAY_S}",
        "The certificate of the board expires in {{ $value | humanizeDuration }}. Browsers warn about the "
        "board after that. Renew it.",
        "1h",
    ),
    Alert(
        "GpuShareVersionsDiffer",
        "warning",
        f"count by (cluster) (group by (cluster, version) ({names.BUILD_INFO})) > 1",
        "{{ $value }} versions of gpushare have run side by side for two hours.",
        "2h",
    ),
    Alert(
        "GpuShareOvercommitted",
        "critical",
        f"max by (cluster) (max_over_time({names.CARDS_OVERCOMMITTED}[1h])) > 0",
        "{{ $value }} GPUs were over-committed within the last hour: more units are reserved than they have.",
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
        f"{names.PLUGIN_UNHEALTHY} > 0",
        f"The agent of node {_AGENT} reports an unhealthy GPU, {{{{ $labels.uuid }}}}, by the rule "
        "{{ $labels.rule }}. No new pods are placed on it.",
        "1m",
    ),
    Alert(
        "GpuShareDriverDown",
        "critical",
        f"{names.PLUGIN_NVML_UP} == 0",
        f"The NVIDIA driver does not respond to the agent of node {_AGENT}. No new GPU pods start there.",
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
        f"The kubelet of node {_AGENT} does not watch the devices {{{{ $labels.resource }}}} of the node "
        "agent. No new GPU pods start there.",
        "5m",
    ),
    Alert(
        "GpuShareNodeClosed",
        "warning",
        f"{names.PLUGIN_CLOSED} == 1",
        f"Node {_AGENT} takes no new GPU pods; its annotation {ANN_CLOSED} has the reason.",
        "10m",
    ),
    Alert(
        "GpuShareClosedNodeInUse",
        "warning",
        f"max by (cluster, node) ({names.CLOSED_NODE_PODS}) > 0",
        "Node {{ $labels.node }} takes no new GPU pods, but {{ $value }} pods still use units of its GPUs. "
        "Do not let another device plugin allocate these GPUs before the pods are gone.",
        "15m",
    ),
    Alert(
        "GpuShareContainersRejected",
        "warning",
        "sum by (cluster, node, instance, result) (\n"
        f'  increase({names.PLUGIN_ALLOCATIONS}{{result!="ok"}}[10m])\n) >= 5',
        f"The agent of node {_AGENT} rejected {{{{ $value | humanize }}}} containers within ten minutes "
        "({{ $labels.result }}). Each rejection fails a pod.",
    ),
    Alert(
        "GpuShareTargetDown",
        "warning",
        f"up == 0 and on (cluster, job, instance) (\n{_SEEN_RECENTLY}\n)",
        f"{{{{ $labels.instance }}}} ({{{{ $labels.job }}}}) on node {_AGENT} does not respond to scrapes.",
        "5m",
    ),
    Alert(
        "GpuShareSourceDown",
        "warning",
        f"{names.SOURCE_UP} == 0",
        f"Source {{{{ $labels.source }}}} of the exporter of node {_AGENT} does not respond. Its series are "
        "missing.",
        "10m",
    ),
    Alert(
        "GpuShareMemoryNearLimit",
        "warning",
        f"{names.CONTAINER_USED}\n/ ({names.CONTAINER_ALLOCATED}"
        f"\n< on (cluster, node, card) group_left max by (cluster, node, card) ({names.CARD_MEMORY})) > 0.95",
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
        f"The agent of node {_AGENT} has not sampled utilization for {{{{ $value | humanizeDuration }}}}. "
        "It enforces compute shares with outdated prices of launches.",
        "5m",
    ),
    Alert(
        "GpuShareRegionResized",
        "warning",
        f"increase({names.PLUGIN_REGIONS}[15m]) > 0\nor\n"
        f"({names.PLUGIN_REGIONS} unless {names.PLUGIN_REGIONS} offset 15m)",
        f"Containers of node {_AGENT} change the size of regions ({{{{ $labels.change }}}}).",
    ),
    Alert(
        "GpuShareMpsDown",
        "critical",
        f"{names.MPS_UP} == 0",
        f"The MPS control daemon of GPU {{{{ $labels.uuid }}}} of node {_AGENT} does not respond. CUDA "
        "programs there may have failed, and new programs cannot start.",
        "1m",
    ),
    Alert(
        "GpuShareMpsRestarts",
        "warning",
        f"increase({names.MPS_STARTS}[30m]) > 2",
        f"The MPS control daemon of GPU {{{{ $labels.uuid }}}} of node {_AGENT} restarts repeatedly.",
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
        f"min by (cluster) ({names.PENDING_MIN}) > {rules.CLUSTER_LARGEST_FREE}\n"
        f"and min by (cluster) ({names.PENDING_MIN}) <= {rules.CLUSTER_FREE}",
        "A pod waits for {{ $value }} units on one GPU. So many units are free in total, but not on one GPU.",
        "15m",
    ),
)


def document(descriptions: Mapping[str, str]) -> dict[str, Any]:
    """Return Prometheus' rule file; ``descriptions`` has a text for each alert."""
    entries = [_entry(alert, descriptions[alert.name]) for alert in ALERTS]
    return {"groups": [{"name": "gpushare.alerts", "rules": entries}]}


def _entry(alert: Alert, description: str) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": description,
            "runbook": f"{RUNBOOK_COMMAND} {alert.name}",
        },
    }
