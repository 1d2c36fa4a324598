"""*GPU Scheduler*: the extender, for those who run the cluster."""

from typing import Final

from gpushare.monitoring import catalogue as names
from gpushare.monitoring import rules
from gpushare.monitoring.dashboards.parts import (
    ALL,
    CLUSTERS,
    SCHEDULER_UID,
    UNITS,
    count,
    number,
    or_zero,
    total,
)
from gpushare.monitoring.panels import (
    EXACTLY_ONE,
    NONE_IS_BETTER,
    NONE_IS_GOOD,
    Dashboard,
    Panel,
    PanelRow,
    Steps,
)

_SLOW: Final[Steps] = ((0, "green"), (1, "orange"), (5, "red"))
"""Seconds; kube-scheduler waits for 5."""
_SLOW_LOOP: Final[Steps] = ((0, "green"), (0.05, "orange"), (0.5, "red"))


def _quantile(metric: names.Metric, part: float, by: str) -> str:
    return f"histogram_quantile({part}, sum by ({by}, le) (rate({metric}_bucket{ALL}[$__rate_interval])))"


def _rate(metric: names.Metric, by: str, selected: str = ALL) -> str:
    return f"sum by ({by}) (rate({metric}{selected}[$__rate_interval]))"


def _latency(title: str, description: str, part: float) -> Panel:
    return Panel(
        title,
        f"{description} kube-scheduler gives up after 5 seconds. If bind is slow, so is the API server; if "
        "filter is slow, see the delay of the event loop below.",
        _quantile(names.EXTENDER_LATENCY, part, "verb"),
        "s",
        "{{verb}}",
    )


_FAILED: Final = f'{ALL[:-1]},result="error"}}'
_BINDS: Final = f'{ALL[:-1]},verb="bind"}}'
_ERRORS: Final = (
    f"({_rate(names.EXTENDER_REQUESTS, 'verb', _FAILED)} or 0 * {_rate(names.EXTENDER_REQUESTS, 'verb')})"
    f" / clamp_min({_rate(names.EXTENDER_REQUESTS, 'verb')}, 1e-9)"
)

_STATE: Final = PanelRow(
    "State",
    (
        count(
            "Leaders",
            "Replicas that bind pods. Must be 1 in each cluster; shown is the lowest number. With 0, no pod "
            "gets a GPU: see the pods and the Lease of the extender in kube-system.",
            f"min(sum by (cluster) ({names.EXTENDER_LEADS}{ALL}))",
            EXACTLY_ONE,
        ),
        count(
            "Replicas",
            "Replicas of the extender that Prometheus scrapes. Fewer than deployed means that some are down.",
            f"count({names.EXTENDER_LEADS}{ALL})",
        ),
        count(
            "Pending pods",
            "Pods that request GPU units and have no node yet. If the number stays, kubectl gpushare explain "
            "says for a pod why, and what helps.",
            total(names.PENDING),
            NONE_IS_BETTER,
        ),
        count(
            "Unclear binds",
            "Binds whose outcome the API server has not told yet; their units stay reserved. They end "
            "within a minute. If not, the API server does not answer.",
            total(names.EXTENDER_UNCLEAR),
            NONE_IS_BETTER,
        ),
        count(
            "Missing rights",
            "Permissions or protections without which the extender runs in degraded mode. Its log names "
            "them.",
            or_zero(f"{names.EXTENDER_DEGRADED}{ALL} == 1"),
            NONE_IS_GOOD,
        ),
        number(
            "Slowest bind",
            "The time in which 99 % of the binds end, in seconds, in the last interval. kube-scheduler gives "
            "up after 5 seconds and tries again later. 0 if nothing was bound.",
            f"histogram_quantile(0.99, sum by (le) (rate({names.EXTENDER_LATENCY}_bucket{_BINDS}"
            "[$__rate_interval]))) > 0 or vector(0)",
            "s",
            _SLOW,
        ),
    ),
)

_REQUESTS: Final = PanelRow(
    "Requests of kube-scheduler",
    (
        _latency("Latency, median", "Half of the requests take longer, in seconds, by verb.", 0.5),
        _latency("Latency, 99th percentile", "One request of 100 takes longer, in seconds, by verb.", 0.99),
        Panel(
            "Requests per second",
            "Requests of kube-scheduler by verb. Filter without bind means that pods do not fit.",
            _rate(names.EXTENDER_REQUESTS, "verb"),
            "ops",
            "{{verb}}",
        ),
        Panel(
            "Error rate",
            "The part of the requests that failed, by verb. Errors of bind are often conflicts that solve "
            "themselves; the graph of binds shows the reasons. All errors at once mean that the extender has "
            "no leader or no API server.",
            _ERRORS,
            "percentunit",
            "{{verb}}",
            top=1,
        ),
        Panel(
            "Binds per second",
            "Binds by outcome: bound, or the reason of the failure. Each reason is explained in the log of "
            "the extender and in an event of the pod.",
            _rate(names.EXTENDER_BINDS, "reason"),
            "ops",
            "{{reason}}",
        ),
    ),
)

_QUEUE: Final = PanelRow(
    "Queue",
    (
        Panel(
            "Pods that wait",
            "Pods that request GPU units and have no node yet, without those that scheduling gates hold "
            "back. A number that only rises means too few GPUs, or pods that can never fit.",
            f"max by (cluster) ({names.PENDING}{ALL})",
            "none",
            "pending {{cluster}}",
        ),
        Panel(
            "Smallest request and largest free block",
            "Units that the smallest pending pod requests of one GPU, and the most free units on one GPU. If "
            "the request is above the block, no pending pod fits; if it is below, something else holds the "
            f"pods back: CPU, memory, labels, taints or quota. {UNITS}",
            f'label_replace(max({names.PENDING_MIN}{ALL}), "of", "smallest request", "", "") or '
            f'label_replace(max({rules.CLUSTER_LARGEST_FREE}{ALL}), "of", "largest free block", "", "")',
            "none",
            "{{of}}",
        ),
        Panel(
            "Reservations by state",
            "Pods for which the extender counts units: bound; unconfirmed, while a bind is in progress; "
            "unplaced, on a node but on an unknown GPU. Unplaced pods count against every GPU of their node: "
            "see the log of the node agent.",
            f"max by (cluster, state) ({names.RESERVATIONS}{ALL})",
            "none",
            "{{state}}",
        ),
    ),
)

_INSIDE: Final = PanelRow(
    "Inside the extender",
    (
        Panel(
            "Leader by replica",
            "Which replica leads over time: 1 leads, 0 follows. Frequent changes mean that the API server is "
            "slow, or that the leader is restarted.",
            f"max by (cluster, instance) ({names.EXTENDER_LEADS}{ALL})",
            "none",
            "{{instance}}",
            "states",
            ((0, "blue"), (1, "green")),
        ),
        Panel(
            "Longest delay of the event loop",
            "How late the extender runs a timer, in seconds: every request waits as long. Above 0.05 s, the "
            "cluster is too large for its CPU: give the extender more.",
            f"histogram_quantile(1, sum by (cluster, le) (rate({names.EXTENDER_LOOP_DELAY}_bucket{ALL}"
            "[$__rate_interval])))",
            "s",
            "longest {{cluster}}",
            steps=_SLOW_LOOP,
        ),
        Panel(
            "Restarted watches",
            "Failed lists and watches of the API server that were restarted, in each interval of the graph. "
            "Many mean an overloaded API server, or a network that breaks connections.",
            f"sum by (resource) (increase({names.EXTENDER_WATCH_RESTARTS}{ALL}[$__rate_interval]))"
            f" or 0 * count by (resource) ({names.EXTENDER_SYNCED}{ALL})",
            "none",
            "{{resource}}",
        ),
        Panel(
            "Dropped events",
            "Events of pods that could not be written, in each interval of the graph. Reasons of pending "
            "pods are then missing in kubectl describe; kubectl gpushare explain still has them.",
            f"sum by (cluster) (increase({names.EXTENDER_EVENTS_DROPPED}{ALL}[$__rate_interval]))",
            "none",
            "dropped {{cluster}}",
        ),
    ),
)

SCHEDULER: Final = Dashboard(
    SCHEDULER_UID,
    "GPU Scheduler",
    "The scheduler extender: whether it leads, how fast it answers, and what waits for it.",
    (CLUSTERS,),
    (_STATE, _REQUESTS, _QUEUE, _INSIDE),
)
