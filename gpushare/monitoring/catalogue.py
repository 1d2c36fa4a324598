"""Every metric, once: name, kind, labels and meaning. Exporters, rules and docs read it from here.

Names carry base units. A metric that is not here does not exist.
"""

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family. Counters are named without the ``_total`` that the text format adds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


EXTENDER_REQUESTS: Final = Metric(
    "gpushare_extender_requests",
    "counter",
    "Requests of the scheduler by verb and result (ok, error).",
    ("verb", "result"),
)
EXTENDER_LATENCY: Final = Metric(
    "gpushare_extender_request_duration_seconds",
    "histogram",
    "Time to answer the scheduler, by verb.",
    ("verb",),
)
EXTENDER_BINDS: Final = Metric(
    "gpushare_extender_binds",
    "counter",
    "Binds by outcome: bound, or the reason of the failure.",
    ("reason",),
)
EXTENDER_FORWARDED: Final = Metric(
    "gpushare_extender_forwarded_binds",
    "counter",
    "Binds passed on to the replica that holds the Lease.",
    ("result",),
)
EXTENDER_UNCLEAR: Final = Metric(
    "gpushare_extender_unclear_binds", "gauge", "Binds whose outcome is unknown; their units stay reserved."
)
EXTENDER_LEADS: Final = Metric("gpushare_extender_leader", "gauge", "1 on the replica that may bind, else 0.")
EXTENDER_REDUCED: Final = Metric(
    "gpushare_extender_reduced_mode", "gauge", "1 for each right that is missing.", ("right",)
)
EXTENDER_SYNCED: Final = Metric(
    "gpushare_extender_cache_synced", "gauge", "1 once the resource is listed.", ("resource",)
)
EXTENDER_WATCH_RESTARTS: Final = Metric(
    "gpushare_extender_watch_restarts",
    "counter",
    "Lists and watches that failed and were begun again.",
    ("resource",),
)
EXTENDER_EVENTS_DROPPED: Final = Metric(
    "gpushare_extender_events_dropped",
    "counter",
    "Pod events that were not written, because of a full queue or an error.",
)
RESERVATIONS: Final = Metric(
    "gpushare_reservations",
    "gauge",
    "Pods that hold units, by state (bound, unsettled, unplaced).",
    ("state",),
)
CARD_UNITS: Final = Metric(
    "gpushare_card_units", "gauge", "Units of gpu-mem that a card has.", ("node", "card")
)
CARD_FREE_UNITS: Final = Metric(
    "gpushare_card_free_units",
    "gauge",
    "Units that are free on a card; negative where it is over-committed.",
    ("node", "card"),
)
CARDS_CLOSED: Final = Metric(
    "gpushare_cards_closed",
    "gauge",
    "Cards on which nothing is placed: unhealthy or over-committed.",
    ("node",),
)
CARDS_OVERCOMMITTED: Final = Metric(
    "gpushare_cards_overcommitted", "gauge", "Cards that are promised beyond their size. Must be 0."
)

EXTENDER: Final = (
    EXTENDER_REQUESTS,
    EXTENDER_LATENCY,
    EXTENDER_BINDS,
    EXTENDER_FORWARDED,
    EXTENDER_UNCLEAR,
    EXTENDER_LEADS,
    EXTENDER_REDUCED,
    EXTENDER_SYNCED,
    EXTENDER_WATCH_RESTARTS,
    EXTENDER_EVENTS_DROPPED,
    RESERVATIONS,
    CARD_UNITS,
    CARD_FREE_UNITS,
    CARDS_CLOSED,
    CARDS_OVERCOMMITTED,
)

PLUGIN_ALLOCATIONS: Final = Metric(
    "gpushare_device_plugin_allocations",
    "counter",
    "Allocate calls of the kubelet by resource and result (ok, or the reason of the refusal).",
    ("resource", "result"),
)
PLUGIN_LATENCY: Final = Metric(
    "gpushare_device_plugin_allocate_duration_seconds",
    "histogram",
    "Time to answer an Allocate call, waiting for an unseen pod included.",
    ("resource",),
)
PLUGIN_CORRECTED: Final = Metric(
    "gpushare_device_plugin_corrected_pods",
    "counter",
    "Pods on a card that their annotations did not name: they named another (moved) or none (unplaced); "
    "and pods with the answer that was meant for one of another size (mistaken).",
    ("cause",),
)
PLUGIN_REGISTERED: Final = Metric(
    "gpushare_device_plugin_registered",
    "gauge",
    "1 while the kubelet listens to the list of devices.",
    ("resource",),
)
PLUGIN_REGISTRATIONS: Final = Metric(
    "gpushare_device_plugin_registrations",
    "counter",
    "Registrations with the kubelet by result (ok, error).",
    ("resource", "result"),
)
PLUGIN_CARDS: Final = Metric(
    "gpushare_device_plugin_cards",
    "gauge",
    "Cards of the node by state (healthy, unhealthy, cordoned).",
    ("state",),
)
PLUGIN_XIDS: Final = Metric(
    "gpushare_device_plugin_xid_errors", "counter", "XID errors that the driver reported.", ("uuid", "xid")
)
PLUGIN_NVML_UP: Final = Metric("gpushare_device_plugin_nvml_up", "gauge", "1 while NVML answers, else 0.")
PLUGIN_WRITES: Final = Metric(
    "gpushare_device_plugin_api_writes",
    "counter",
    "Writes to the Kubernetes API by kind of object and result (ok, error).",
    ("kind", "result"),
)
PLUGIN_UNPUBLISHED: Final = Metric(
    "gpushare_device_plugin_unpublished", "gauge", "Facts that the API server has not taken yet."
)
PLUGIN_REDUCED: Final = Metric(
    "gpushare_device_plugin_reduced_mode", "gauge", "1 for each right or mount that is missing.", ("right",)
)
PLUGIN_STUCK: Final = Metric(
    "gpushare_device_plugin_job_stuck", "gauge", "1 while a job of the agent does not get on.", ("job",)
)
PLUGIN_WATCH_STALE: Final = Metric(
    "gpushare_device_plugin_watch_stale_seconds",
    "gauge",
    "Since when the API server could not be followed, 0 while it can be.",
    ("resource",),
)
PLUGIN_PODS: Final = Metric(
    "gpushare_device_plugin_pods", "gauge", "Pods that hold a card, by state (running, leaving).", ("state",)
)

DEVICE_PLUGIN: Final = (
    PLUGIN_ALLOCATIONS,
    PLUGIN_LATENCY,
    PLUGIN_CORRECTED,
    PLUGIN_REGISTERED,
    PLUGIN_REGISTRATIONS,
    PLUGIN_CARDS,
    PLUGIN_XIDS,
    PLUGIN_NVML_UP,
    PLUGIN_WRITES,
    PLUGIN_UNPUBLISHED,
    PLUGIN_REDUCED,
    PLUGIN_STUCK,
    PLUGIN_WATCH_STALE,
    PLUGIN_PODS,
)
