"""Every metric, once: name, kind, labels and meaning. Exporters, rules and docs read it from here.

Names carry base units. A metric that is not here does not exist.
"""

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram", "unknown"]
"""``unknown`` is for counts whose name, which others gave, has no ``_total`` at its end."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family. Counters are named without the ``_total`` that the text format adds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The name of its samples, as queries have it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


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
PENDING: Final = Metric("gpushare_pods_pending", "gauge", "Pods that ask for units and have no node yet.")
PENDING_LEAST: Final = Metric(
    "gpushare_pods_pending_least_units",
    "gauge",
    "Units on one card that the most modest of them asks for; absent where none is pending.",
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
    PENDING,
    PENDING_LEAST,
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

# --- the exporter -------------------------------------------------------------------------------
# Three families of names tell of the same: those that the dashboards and rules of the source documents
# read (DCGM_*, in percent, MiB, MHz), cAdvisor's of old, and ours in base units.
_DCGM_CARD: Final = ("NodeName", "UUID", "gpu", "device", "modelName")
_DCGM_CONTAINER: Final = ("NodeName", "NamespaceName", "PodName", "ContainerName", *_DCGM_CARD[1:])
_CARD: Final = ("node", "card", "uuid")
_CONTAINER: Final = ("node", "namespace", "pod", "container", "card", "uuid")
_CADVISOR: Final = ("namespace", "pod", "container", "make", "model", "acc_id")
PID_LABEL: Final = "pid"
"""The label that DCGM_CUSTOM_PROCESS_* have besides where the exporter tells processes apart."""


def _device(name: str, text: str, kind: Kind = "gauge") -> Metric:
    return Metric(f"DCGM_FI_DEV_{name}", kind, text, _DCGM_CARD)


def _custom(name: str, text: str) -> Metric:
    return Metric(f"DCGM_CUSTOM_{name}", "gauge", text, _DCGM_CONTAINER)


def _card(name: str, text: str, *labels: str, kind: Kind = "gauge") -> Metric:
    return Metric(f"gpushare_card_{name}", kind, text, (*_CARD, *labels))


def _container(name: str, text: str) -> Metric:
    return Metric(f"gpushare_container_{name}", "gauge", text, _CONTAINER)


def _cadvisor(name: str, text: str) -> Metric:
    return Metric(f"container_accelerator_{name}", "gauge", text, _CADVISOR)


DCGM_GPU_UTIL: Final = _device("GPU_UTIL", "Percent of time in which the card computed.")
DCGM_MEM_COPY_UTIL: Final = _device("MEM_COPY_UTIL", "Percent of time in which its memory was accessed.")
DCGM_ENC_UTIL: Final = _device("ENC_UTIL", "Use of the encoder in percent.")
DCGM_DEC_UTIL: Final = _device("DEC_UTIL", "Use of the decoder in percent.")
DCGM_FB_USED: Final = _device("FB_USED", "Memory in use in MiB.")
DCGM_FB_FREE: Final = _device("FB_FREE", "Free memory in MiB.")
DCGM_FB_RESERVED: Final = _device("FB_RESERVED", "Memory that the driver keeps, in MiB.")
DCGM_GPU_TEMP: Final = _device("GPU_TEMP", "Temperature in °C.")
DCGM_MEMORY_TEMP: Final = _device("MEMORY_TEMP", "Temperature of the memory in °C.")
DCGM_POWER_USAGE: Final = _device("POWER_USAGE", "Power in W.")
DCGM_POWER_LIMIT: Final = _device("ENFORCED_POWER_LIMIT", "Limit of the power in W.")
DCGM_ENERGY: Final = _device(
    "TOTAL_ENERGY_CONSUMPTION", "Energy since the driver was loaded, in mJ.", "unknown"
)
DCGM_SM_CLOCK: Final = _device("SM_CLOCK", "Clock of the multiprocessors in MHz.")
DCGM_MEM_CLOCK: Final = _device("MEM_CLOCK", "Clock of the memory in MHz.")
DCGM_PCIE_REPLAYS: Final = _device("PCIE_REPLAY_COUNTER", "Retries on the PCIe bus.", "unknown")
DCGM_PCIE_TX: Final = _device("PCIE_TX_THROUGHPUT", "Sent over PCIe, in KB/s.")
DCGM_PCIE_RX: Final = _device("PCIE_RX_THROUGHPUT", "Received over PCIe, in KB/s.")
DCGM_XID_ERRORS: Final = _device("XID_ERRORS", "Number of the last XID error, 0 before the first.")
DCGM_ECC_SBE_VOL: Final = _device(
    "ECC_SBE_VOL_TOTAL", "Corrected ECC errors since the driver was loaded.", "unknown"
)
DCGM_ECC_DBE_VOL: Final = _device(
    "ECC_DBE_VOL_TOTAL", "Uncorrected ECC errors since the driver was loaded.", "unknown"
)
DCGM_ECC_SBE_AGG: Final = _device("ECC_SBE_AGG_TOTAL", "Corrected ECC errors of the card's life.", "unknown")
DCGM_ECC_DBE_AGG: Final = _device(
    "ECC_DBE_AGG_TOTAL", "Uncorrected ECC errors of the card's life.", "unknown"
)
DCGM_ROWS_CORRECTED: Final = _device(
    "CORRECTABLE_REMAPPED_ROWS", "Rows of memory remapped for corrected errors.", "unknown"
)
DCGM_ROWS_UNCORRECTED: Final = _device(
    "UNCORRECTABLE_REMAPPED_ROWS", "Rows of memory remapped for uncorrected errors.", "unknown"
)
DCGM_ROW_REMAP_FAILURE: Final = _device("ROW_REMAP_FAILURE", "1 where a row could not be remapped.")

DCGM_PROCESS_SM_UTIL: Final = _custom(
    "PROCESS_SM_UTIL", "Percent of the card's multiprocessors that a container takes; idle is 0."
)
DCGM_PROCESS_MEM_USED: Final = _custom(
    "PROCESS_MEM_USED", "Memory of the card that a container uses, in MiB."
)
DCGM_CONTAINER_MEM_ALLOCATED: Final = _custom(
    "CONTAINER_MEM_ALLOCATED", "Memory of the card that a container was given, in MiB."
)
DCGM_CONTAINER_CP_ALLOCATED: Final = _custom(
    "CONTAINER_CP_ALLOCATED",
    "Part of the card's compute that a container was given, 0 where it is not divided.",
)

CADVISOR_TOTAL: Final = _cadvisor("memory_total_bytes", "Memory of the card that is attached to a container.")
CADVISOR_USED: Final = _cadvisor("memory_used_bytes", "Memory in use on that card, whoever uses it.")
CADVISOR_DUTY_CYCLE: Final = _cadvisor("duty_cycle", "Percent of time in which that card computed.")

CARD_INFO: Final = _card("info", "A card that the driver shows.", "model", "pci")
CARD_MEMORY: Final = _card("memory_bytes", "Memory that can be given out: all but the driver's reserve.")
CARD_USED: Final = _card("memory_used_bytes", "Memory in use.")
CARD_UTILIZATION: Final = _card("utilization_ratio", "Part of the time in which the card computed.")
CARD_MEMORY_UTILIZATION: Final = _card(
    "memory_utilization_ratio", "Part of the time in which its memory was accessed."
)
CARD_ENCODER: Final = _card("encoder_utilization_ratio", "Use of the encoder.")
CARD_DECODER: Final = _card("decoder_utilization_ratio", "Use of the decoder.")
CARD_TEMPERATURE: Final = _card("temperature_celsius", "Temperature.")
CARD_MEMORY_TEMPERATURE: Final = _card("memory_temperature_celsius", "Temperature of the memory.")
CARD_POWER: Final = _card("power_watts", "Power.")
CARD_POWER_LIMIT: Final = _card("power_limit_watts", "Limit of the power.")
CARD_ENERGY: Final = _card("energy_joules", "Energy since the driver was loaded.", kind="counter")
CARD_SM_CLOCK: Final = _card("sm_clock_hertz", "Clock of the multiprocessors.")
CARD_MEMORY_CLOCK: Final = _card("memory_clock_hertz", "Clock of the memory.")
CARD_ECC: Final = _card(
    "ecc_errors", "ECC errors since the driver was loaded (corrected, uncorrected).", "kind", kind="counter"
)
CARD_ROWS: Final = _card("remapped_rows", "Rows of memory remapped after errors, by their kind.", "kind")
CARD_XIDS: Final = _card(
    "xid_errors", "XID errors that the driver reported to the exporter.", "xid", kind="counter"
)
CARD_PCIE_SENT: Final = _card("pcie_transmit_bytes_per_second", "Sent over PCIe.")
CARD_PCIE_RECEIVED: Final = _card("pcie_receive_bytes_per_second", "Received over PCIe.")
CARD_PCIE_REPLAYS: Final = _card("pcie_replays", "Retries on the PCIe bus.", kind="counter")

CONTAINER_ALLOCATED: Final = _container(
    "memory_allocated_bytes", "Memory of the card that a container was given."
)
CONTAINER_USED: Final = _container(
    "memory_used_bytes", "Memory of the card that a container uses; idle is 0."
)
CONTAINER_CORE: Final = _container(
    "compute_allocated_ratio", "Part of the card's compute that a container was given, 0 where not divided."
)
CONTAINER_UTILIZATION: Final = _container(
    "utilization_ratio", "Part of the card's multiprocessors that a container takes; idle is 0."
)

SOURCE_UP: Final = Metric(
    "gpushare_exporter_source_up",
    "gauge",
    "1 while the source answers; its series are absent while it does not.",
    ("source",),
)
SOURCE_DURATION: Final = Metric(
    "gpushare_exporter_source_duration_seconds", "gauge", "How long its last answer took.", ("source",)
)
SNAPSHOT_AT: Final = Metric(
    "gpushare_exporter_snapshot_timestamp_seconds",
    "gauge",
    "When what is shown was read, in seconds since 1970.",
)
CARDS_UNREADABLE: Final = Metric(
    "gpushare_exporter_unreadable_cards", "gauge", "Cards that the driver knows and cannot describe."
)

EXPORTER: Final = (
    DCGM_GPU_UTIL,
    DCGM_MEM_COPY_UTIL,
    DCGM_ENC_UTIL,
    DCGM_DEC_UTIL,
    DCGM_FB_USED,
    DCGM_FB_FREE,
    DCGM_FB_RESERVED,
    DCGM_GPU_TEMP,
    DCGM_MEMORY_TEMP,
    DCGM_POWER_USAGE,
    DCGM_POWER_LIMIT,
    DCGM_ENERGY,
    DCGM_SM_CLOCK,
    DCGM_MEM_CLOCK,
    DCGM_PCIE_REPLAYS,
    DCGM_PCIE_TX,
    DCGM_PCIE_RX,
    DCGM_XID_ERRORS,
    DCGM_ECC_SBE_VOL,
    DCGM_ECC_DBE_VOL,
    DCGM_ECC_SBE_AGG,
    DCGM_ECC_DBE_AGG,
    DCGM_ROWS_CORRECTED,
    DCGM_ROWS_UNCORRECTED,
    DCGM_ROW_REMAP_FAILURE,
    DCGM_PROCESS_SM_UTIL,
    DCGM_PROCESS_MEM_USED,
    DCGM_CONTAINER_MEM_ALLOCATED,
    DCGM_CONTAINER_CP_ALLOCATED,
    CADVISOR_TOTAL,
    CADVISOR_USED,
    CADVISOR_DUTY_CYCLE,
    CARD_INFO,
    CARD_MEMORY,
    CARD_USED,
    CARD_UTILIZATION,
    CARD_MEMORY_UTILIZATION,
    CARD_ENCODER,
    CARD_DECODER,
    CARD_TEMPERATURE,
    CARD_MEMORY_TEMPERATURE,
    CARD_POWER,
    CARD_POWER_LIMIT,
    CARD_ENERGY,
    CARD_SM_CLOCK,
    CARD_MEMORY_CLOCK,
    CARD_ECC,
    CARD_ROWS,
    CARD_XIDS,
    CARD_PCIE_SENT,
    CARD_PCIE_RECEIVED,
    CARD_PCIE_REPLAYS,
    CONTAINER_ALLOCATED,
    CONTAINER_USED,
    CONTAINER_CORE,
    CONTAINER_UTILIZATION,
    SOURCE_UP,
    SOURCE_DURATION,
    SNAPSHOT_AT,
    CARDS_UNREADABLE,
)

# --- the metrics API ----------------------------------------------------------------------------
API_REQUESTS: Final = Metric(
    "gpushare_metrics_api_requests",
    "counter",
    "Requests by kind of object (pods, nodes, namespaces, other) and HTTP status.",
    ("kind", "code"),
)
API_LATENCY: Final = Metric(
    "gpushare_metrics_api_request_duration_seconds",
    "histogram",
    "Time to answer a request, by kind of object.",
    ("kind",),
)
API_REVIEWS: Final = Metric(
    "gpushare_metrics_api_access_reviews",
    "counter",
    "Questions to the API server whether a client may read, by result (allowed, denied, error).",
    ("result",),
)
API_SOURCE_READS: Final = Metric(
    "gpushare_metrics_api_source_reads",
    "counter",
    "Scrapes of exporters, or queries to Prometheus, by result (ok, error).",
    ("result",),
)
API_SYNCED: Final = Metric(
    "gpushare_metrics_api_cache_synced", "gauge", "1 once the resource is listed.", ("resource",)
)
API_WATCH_RESTARTS: Final = Metric(
    "gpushare_metrics_api_watch_restarts",
    "counter",
    "Lists and watches that failed and were begun again.",
    ("resource",),
)

METRICS_API: Final = (
    API_REQUESTS,
    API_LATENCY,
    API_REVIEWS,
    API_SOURCE_READS,
    API_SYNCED,
    API_WATCH_RESTARTS,
)

# --- made of other metrics ----------------------------------------------------------------------
DCGM_GPU_MEM_USED_RATIO: Final = Metric(
    "DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO",
    "gauge",
    "Part of its memory of cards that a pod uses. Nobody exports it: the metrics API and the rules of "
    "prometheus-adapter make it of DCGM_CUSTOM_PROCESS_MEM_USED and DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED.",
    ("NamespaceName", "PodName"),
)

DERIVED: Final = (DCGM_GPU_MEM_USED_RATIO,)

ALL: Final = (*EXTENDER, *DEVICE_PLUGIN, *EXPORTER, *METRICS_API, *DERIVED)
