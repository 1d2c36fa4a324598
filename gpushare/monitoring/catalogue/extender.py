"""Metrics of the extender."""

from typing import Final

from gpushare.monitoring.catalogue.metric import Metric

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
    "Cards on which nothing is placed: unhealthy, over-committed, or closed by a rule of their mode.",
    ("node",),
)
CARDS_OVERCOMMITTED: Final = Metric(
    "gpushare_cards_overcommitted", "gauge", "Cards that are promised beyond their size. Must be 0."
)
PENDING: Final = Metric("gpushare_pods_pending", "gauge", "Pods that ask for units and have no node yet.")
PENDING_LEAST: Final = Metric(
    "gpushare_pods_pending_least_units",
    "gauge",
    "Units on one card that the most modest of them asks for; absent where none is pending.",
)
