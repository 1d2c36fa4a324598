"""Metrics of the node agent."""

from typing import Final

from gpushare.monitoring.catalogue.metric import Metric

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
    "Cards of the node by state (healthy, unhealthy, cordoned); whole counts those that take no pods because "
    "a container has them as whole GPUs from another device plugin, whatever else their state is.",
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
PLUGIN_SAMPLE_AGE: Final = Metric(
    "gpushare_device_plugin_pacing_sample_age_seconds",
    "gauge",
    "Age of the last sample of NVML by which containers are held to their part of a card's time; their last "
    "rates stay until there is another. 0 where no container has such a part.",
)
