"""Every metric, defined once: name, kind, labels and help text. Daemons, rules, dashboards and docs use it.

Metrics are grouped by the daemon that serves them. Those of a GPU have their reader beside them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from gpushare.model.readings import CardReading

Kind = Literal["counter", "gauge", "histogram", "unknown"]
"""``unknown`` is for counters of other projects whose names do not end in ``_total``."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family. The name of a counter has no ``_total``: the text format adds it."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the name of its series, as queries use it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


Values = Mapping[tuple[str, ...], float | None]
"""A number for the values of the labels that only this metric has; None if it is unknown."""


@dataclass(frozen=True, slots=True)
class CardMetric(Metric):
    """A metric of one GPU. ``read`` returns its values, without the labels of the GPU."""

    read: Callable[[CardReading], Values] = field(kw_only=True)


class Group(list[Metric]):
    """The metrics of one daemon, in the order of their declaration."""

    def counter(self, name: str, text: str, *labels: str) -> Metric:
        """Declare a counter of this group."""
        return self._metric(Metric(name, "counter", text, labels))

    def gauge(self, name: str, text: str, *labels: str) -> Metric:
        """Declare a gauge of this group."""
        return self._metric(Metric(name, "gauge", text, labels))

    def histogram(self, name: str, text: str, *labels: str) -> Metric:
        """Declare a histogram of this group."""
        return self._metric(Metric(name, "histogram", text, labels))

    def _metric(self, metric: Metric) -> Metric:
        self.append(metric)
        return metric


# --- every daemon -------------------------------------------------------------------------------

COMMON: Final = Group()

BUILD_INFO: Final = COMMON.gauge(
    "gpushare_build_info", "Version of the daemon that serves this page; always 1.", "version"
)

# --- extender -----------------------------------------------------------------------------------

EXTENDER: Final = Group()

EXTENDER_REQUESTS: Final = EXTENDER.counter(
    "gpushare_extender_requests",
    "Requests from the scheduler by verb and result (ok, error).",
    "verb",
    "result",
)
EXTENDER_LATENCY: Final = EXTENDER.histogram(
    "gpushare_extender_request_duration_seconds",
    "Duration of requests from the scheduler by verb.",
    "verb",
)
EXTENDER_BINDS: Final = EXTENDER.counter(
    "gpushare_extender_binds", "Binds by outcome: bound, or the reason of the failure.", "reason"
)
EXTENDER_PRIORITIZED: Final = EXTENDER.counter(
    "gpushare_extender_prioritize_requests",
    "Requests of prioritize by where their scores come from (prepared after filter, computed).",
    "scores",
)
EXTENDER_FORWARDED: Final = EXTENDER.counter(
    "gpushare_extender_forwarded_requests",
    "Binds, and filters of members of pod groups, forwarded to the leader by result.",
    "verb",
    "result",
)
EXTENDER_ROOM: Final = EXTENDER.counter(
    "gpushare_extender_evictions",
    "Evictions to make room by outcome: evicted, dry_run, or why not (pdb, rate, priority, error). Refusals "
    "are counted once for each pod that waits.",
    "outcome",
)
EXTENDER_UNCLEAR: Final = EXTENDER.gauge(
    "gpushare_extender_unclear_binds", "Binds with an unknown outcome; their units stay reserved."
)
EXTENDER_LEADS: Final = EXTENDER.gauge("gpushare_extender_leader", "1 on the leader, 0 on followers.")
EXTENDER_DEGRADED: Final = EXTENDER.gauge(
    "gpushare_extender_degraded_mode",
    "1 for each missing permission or protection: the extender runs degraded.",
    "right",
)
EXTENDER_CERTIFICATE_EXPIRY: Final = EXTENDER.gauge(
    "gpushare_extender_certificate_expiration_timestamp_seconds",
    "When a certificate expires: the certificate of the extender (server), or the last one of each client.",
    "certificate",
)
EXTENDER_SYNCED: Final = EXTENDER.gauge(
    "gpushare_extender_cache_synced", "1 once the resource has been listed.", "resource"
)
EXTENDER_WATCH_RESTARTS: Final = EXTENDER.counter(
    "gpushare_extender_watch_restarts", "Failed lists and watches that were restarted.", "resource"
)
EXTENDER_EVENTS_DROPPED: Final = EXTENDER.counter(
    "gpushare_extender_events_dropped", "Pod events dropped because of a full queue or an error."
)
EXTENDER_REPLAY_LATE: Final = EXTENDER.counter(
    "gpushare_extender_replay_late",
    "Answers with the scores of best fit, because replay had not compared the nodes in time.",
)
EXTENDER_LOOP_DELAY: Final = EXTENDER.histogram(
    "gpushare_extender_event_loop_delay_seconds",
    "How late the event loop runs a timer, 100 times a second; every request waits that long.",
)
RESERVATIONS: Final = EXTENDER.gauge(
    "gpushare_reservations",
    "Pods with a reservation by state (bound, unconfirmed, unplaced).",
    "state",
)
CARD_UNITS: Final = EXTENDER.gauge("gpushare_card_units", "Total units of gpu-mem of a GPU.", "node", "card")
CARD_FREE_UNITS: Final = EXTENDER.gauge(
    "gpushare_card_free_units",
    "Free units of a GPU; 0 if its node takes no pods, negative if it is over-committed.",
    "node",
    "card",
)
CARDS_UNSCHEDULABLE: Final = EXTENDER.gauge(
    "gpushare_cards_unschedulable",
    "Unschedulable GPUs: unhealthy, cordoned, over-committed, used by a whole-GPU pod, full by a rule of "
    "their sharing mode, or on a node that takes no pods.",
    "node",
)
CLOSED_NODE_PODS: Final = EXTENDER.gauge(
    "gpushare_closed_node_pods",
    "Pods with units on a node that takes no pods: it no longer shares its GPUs, or its agent cannot serve.",
    "node",
)
CARDS_OVERCOMMITTED: Final = EXTENDER.gauge(
    "gpushare_cards_overcommitted", "GPUs with more units reserved than they have. Must be 0."
)
PENDING: Final = EXTENDER.gauge(
    "gpushare_pods_pending",
    "Pods that request units and have no node yet, without those that scheduling gates hold back.",
)
PENDING_MIN: Final = EXTENDER.gauge(
    "gpushare_pods_pending_min_units",
    "Smallest number of units on one GPU that a pending pod requests; absent if no pod is pending.",
)

# --- node agent ---------------------------------------------------------------------------------

DEVICE_PLUGIN: Final = Group()

PLUGIN_ALLOCATIONS: Final = DEVICE_PLUGIN.counter(
    "gpushare_device_plugin_allocations",
    "Allocate calls of the kubelet by resource and result (ok, or the reason of the rejection).",
    "resource",
    "result",
)
PLUGIN_LATENCY: Final = DEVICE_PLUGIN.histogram(
    "gpushare_device_plugin_allocate_duration_seconds",
    "Duration of Allocate calls, including the wait for a pod that is not yet known.",
    "resource",
)
PLUGIN_CORRECTED: Final = DEVICE_PLUGIN.counter(
    "gpushare_device_plugin_corrected_pods",
    "Pods that run on another GPU than their annotations named (moved), had no GPU in their annotations "
    "(unplaced), or received the response for a pod of another size (mistaken).",
    "cause",
)
PLUGIN_REGISTERED: Final = DEVICE_PLUGIN.gauge(
    "gpushare_device_plugin_registered",
    "1 while the kubelet watches the device list (ListAndWatch), else 0.",
    "resource",
)
PLUGIN_REGISTRATIONS: Final = DEVICE_PLUGIN.counter(
    "gpushare_device_plugin_registrations",
    "Registrations with the kubelet by result (ok, error).",
    "resource",
    "result",
)
PLUGIN_CARDS: Final = DEVICE_PLUGIN.gauge(
    "gpushare_device_plugin_cards",
    "GPUs of the node by state (healthy, unhealthy, cordoned). The state whole counts GPUs that another "
    "device plugin allocated to a container as whole GPUs, in addition to their other state.",
    "state",
)
PLUGIN_UNHEALTHY: Final = DEVICE_PLUGIN.gauge(
    "gpushare_device_plugin_card_unhealthy",
    "1 for each unhealthy GPU, with the rule by which it takes no pods.",
    "uuid",
    "rule",
)
PLUGIN_XIDS: Final = DEVICE_PLUGIN.counter(
    "gpushare_device_plugin_xid_errors", "XID errors reported by the driver.", "uuid", "xid"
)
PLUGIN_NVML_UP: Final = DEVICE_PLUGIN.gauge(
    "gpushare_device_plugin_nvml_up", "1 while NVML responds, else 0."
)
PLUGIN_WRITES: Final = DEVICE_PLUGIN.counter(
    "gpushare_device_plugin_api_writes",
    "Writes to the Kubernetes API by kind of object and result (ok, error; for events also dropped).",
    "kind",
    "result",
)
PLUGIN_UNPUBLISHED: Final = DEVICE_PLUGIN.gauge(
    "gpushare_device_plugin_unpublished", "Changes that are not yet written to the API server."
)
PLUGIN_DEGRADED: Final = DEVICE_PLUGIN.gauge(
    "gpushare_device_plugin_degraded_mode",
    "1 for each missing permission or mount: the node agent runs degraded.",
    "right",
)
PLUGIN_CLOSED: Final = DEVICE_PLUGIN.gauge(
    "gpushare_device_plugin_closed",
    "1 while the node takes no new pods, for the reason in its annotation gpushare.io/closed, else 0.",
)
PLUGIN_STUCK: Final = DEVICE_PLUGIN.gauge(
    "gpushare_device_plugin_job_stuck",
    "1 while a background job of the node agent makes no progress.",
    "job",
)
PLUGIN_WATCH_STALE: Final = DEVICE_PLUGIN.gauge(
    "gpushare_device_plugin_watch_stale_seconds",
    "Time since the watch of the API server was lost; 0 while it works.",
    "resource",
)
PLUGIN_PODS: Final = DEVICE_PLUGIN.gauge(
    "gpushare_device_plugin_pods", "GPU pods by state (running, leaving).", "state"
)
PLUGIN_SAMPLE_AGE: Final = DEVICE_PLUGIN.gauge(
    "gpushare_device_plugin_pacing_sample_age_seconds",
    "Age of the last NVML sample from which prices of launches are computed; the last prices apply until "
    "the next sample. 0 if no container has a compute share.",
)
PLUGIN_REGIONS: Final = DEVICE_PLUGIN.counter(
    "gpushare_device_plugin_regions_resized",
    "Regions whose size a container has changed, by change: grown (repaired) or cut (unusable until the pod "
    "is recreated).",
    "change",
)

# --- exporter: names of other projects ----------------------------------------------------------
# The DCGM_* names of the ACK documentation (percent, MiB, MHz), and the former ones of cAdvisor.

EXPORTER: Final = Group()

_DCGM_DEVICE: Final = "DCGM_FI_DEV_"
_DCGM_CARD: Final = ("NodeName", "UUID", "gpu", "device", "modelName")
_DCGM_CONTAINER: Final = ("NodeName", "NamespaceName", "PodName", "ContainerName", *_DCGM_CARD[1:])
_CADVISOR: Final = ("namespace", "pod", "container", "make", "model", "acc_id")
PID_LABEL: Final = "pid"
"""Additional label of DCGM_CUSTOM_PROCESS_* if the exporter reports each process."""

CARDS: Final[list[CardMetric]] = []
"""The metrics of a GPU, with the labels of DCGM or with ours."""
ATTACHED: Final[list[CardMetric]] = []
"""The metrics of the GPUs that are attached to a container: values of the whole GPU."""

_MIB: Final = 1024 * 1024
_Read = Callable[[CardReading], float | None]


def _divided(value: float | None, by: float) -> float | None:
    return None if value is None else value / by


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _alone(read: _Read) -> Callable[[CardReading], Values]:
    """A reader of the only value that the metric has for a GPU."""
    return lambda gpu: {(): read(gpu)}


def _of_gpu(metric: CardMetric, group: list[CardMetric]) -> CardMetric:
    EXPORTER.append(metric)
    group.append(metric)
    return metric


def _device(name: str, text: str, read: _Read, kind: Kind = "gauge") -> CardMetric:
    return _of_gpu(CardMetric(f"{_DCGM_DEVICE}{name}", kind, text, _DCGM_CARD, read=_alone(read)), CARDS)


def is_of_dcgm(metric: Metric) -> bool:
    """Whether NVIDIA's dcgm-exporter has a metric of that name."""
    return metric.name.startswith(_DCGM_DEVICE)


def _custom(name: str, text: str) -> Metric:
    return EXPORTER.gauge(f"DCGM_CUSTOM_{name}", text, *_DCGM_CONTAINER)


def _cadvisor(name: str, text: str, read: _Read) -> CardMetric:
    full_name = f"container_accelerator_{name}"
    return _of_gpu(CardMetric(full_name, "gauge", text, _CADVISOR, read=_alone(read)), ATTACHED)


DCGM_GPU_UTIL: Final = _device("GPU_UTIL", "GPU utilization in percent.", lambda gpu: gpu.gpu_percent)
DCGM_MEM_COPY_UTIL: Final = _device(
    "MEM_COPY_UTIL", "Memory bandwidth utilization in percent.", lambda gpu: gpu.memory_percent
)
DCGM_ENC_UTIL: Final = _device("ENC_UTIL", "Encoder utilization in percent.", lambda gpu: gpu.encoder_percent)
DCGM_DEC_UTIL: Final = _device("DEC_UTIL", "Decoder utilization in percent.", lambda gpu: gpu.decoder_percent)
DCGM_FB_USED: Final = _device("FB_USED", "Memory used in MiB.", lambda gpu: _divided(gpu.used_bytes, _MIB))
DCGM_FB_FREE: Final = _device("FB_FREE", "Free memory in MiB.", lambda gpu: _divided(gpu.free_bytes, _MIB))
DCGM_FB_RESERVED: Final = _device(
    "FB_RESERVED", "Memory reserved by the driver in MiB.", lambda gpu: _divided(gpu.reserved_bytes, _MIB)
)
DCGM_GPU_TEMP: Final = _device("GPU_TEMP", "GPU temperature in °C.", lambda gpu: gpu.celsius)
DCGM_MEMORY_TEMP: Final = _device("MEMORY_TEMP", "Memory temperature in °C.", lambda gpu: gpu.memory_celsius)
DCGM_POWER_USAGE: Final = _device("POWER_USAGE", "Power draw in W.", lambda gpu: _divided(gpu.power_mw, 1000))
DCGM_POWER_LIMIT: Final = _device(
    "ENFORCED_POWER_LIMIT", "Enforced power limit in W.", lambda gpu: _divided(gpu.power_limit_mw, 1000)
)
DCGM_ENERGY: Final = _device(
    "TOTAL_ENERGY_CONSUMPTION",
    "Energy consumed since the driver was loaded, in mJ.",
    lambda gpu: gpu.energy_mj,
    kind="unknown",
)
DCGM_SM_CLOCK: Final = _device("SM_CLOCK", "SM clock in MHz.", lambda gpu: gpu.sm_mhz)
DCGM_MEM_CLOCK: Final = _device("MEM_CLOCK", "Memory clock in MHz.", lambda gpu: gpu.memory_mhz)
DCGM_PCIE_REPLAYS: Final = _device(
    "PCIE_REPLAY_COUNTER", "PCIe replays.", lambda gpu: gpu.pcie_replays, kind="unknown"
)
DCGM_PCIE_TX: Final = _device(
    "PCIE_TX_THROUGHPUT", "PCIe transmit throughput in KB/s.", lambda gpu: gpu.pcie_tx_kb
)
DCGM_PCIE_RX: Final = _device(
    "PCIE_RX_THROUGHPUT", "PCIe receive throughput in KB/s.", lambda gpu: gpu.pcie_rx_kb
)
DCGM_XID_ERRORS: Final = _device(
    "XID_ERRORS", "Number of the last XID error; 0 if there was none.", lambda gpu: gpu.last_xid
)
DCGM_ECC_SBE_VOL: Final = _device(
    "ECC_SBE_VOL_TOTAL",
    "Corrected ECC errors since the driver was loaded.",
    lambda gpu: gpu.ecc_corrected,
    kind="unknown",
)
DCGM_ECC_DBE_VOL: Final = _device(
    "ECC_DBE_VOL_TOTAL",
    "Uncorrected ECC errors since the driver was loaded.",
    lambda gpu: gpu.ecc_uncorrected,
    kind="unknown",
)
DCGM_ECC_SBE_AGG: Final = _device(
    "ECC_SBE_AGG_TOTAL",
    "Corrected ECC errors over the lifetime of the GPU.",
    lambda gpu: gpu.ecc_corrected_ever,
    kind="unknown",
)
DCGM_ECC_DBE_AGG: Final = _device(
    "ECC_DBE_AGG_TOTAL",
    "Uncorrected ECC errors over the lifetime of the GPU.",
    lambda gpu: gpu.ecc_uncorrected_ever,
    kind="unknown",
)
DCGM_ROWS_CORRECTED: Final = _device(
    "CORRECTABLE_REMAPPED_ROWS",
    "Memory rows remapped after correctable errors.",
    lambda gpu: gpu.remapped_corrected,
    kind="unknown",
)
DCGM_ROWS_UNCORRECTED: Final = _device(
    "UNCORRECTABLE_REMAPPED_ROWS",
    "Memory rows remapped after uncorrectable errors.",
    lambda gpu: gpu.remapped_uncorrected,
    kind="unknown",
)
DCGM_ROW_REMAP_FAILURE: Final = _device(
    "ROW_REMAP_FAILURE", "1 if remapping a row failed.", lambda gpu: gpu.remap_failed
)

DCGM_PROCESS_SM_UTIL: Final = _custom(
    "PROCESS_SM_UTIL", "SM utilization of a container on the GPU in percent; 0 while it is idle."
)
DCGM_PROCESS_MEM_USED: Final = _custom("PROCESS_MEM_USED", "GPU memory used by a container in MiB.")
DCGM_CONTAINER_MEM_ALLOCATED: Final = _custom(
    "CONTAINER_MEM_ALLOCATED", "GPU memory allocated to a container in MiB."
)
DCGM_CONTAINER_CP_ALLOCATED: Final = _custom(
    "CONTAINER_CP_ALLOCATED",
    "Fraction of the GPU's compute allocated to a container; 0 if compute is not divided.",
)

CADVISOR_TOTAL: Final = _cadvisor(
    "memory_total_bytes", "Total memory of the GPU attached to a container.", lambda gpu: gpu.total_bytes
)
CADVISOR_USED: Final = _cadvisor(
    "memory_used_bytes",
    "Memory used on the GPU attached to a container, by all processes.",
    lambda gpu: gpu.used_bytes,
)
CADVISOR_DUTY_CYCLE: Final = _cadvisor(
    "duty_cycle", "Utilization of the GPU attached to a container in percent.", lambda gpu: gpu.gpu_percent
)

# --- exporter: our names, base units ------------------------------------------------------------

_CARD: Final = ("node", "card", "uuid")
_CONTAINER: Final = ("node", "namespace", "pod", "container", "card", "uuid")


def _card(name: str, text: str, read: _Read, kind: Kind = "gauge") -> CardMetric:
    return _card_by(name, text, (), _alone(read), kind)


def _card_by(
    name: str,
    text: str,
    labels: tuple[str, ...],
    read: Callable[[CardReading], Values],
    kind: Kind = "gauge",
) -> CardMetric:
    metric = CardMetric(f"gpushare_card_{name}", kind, text, (*_CARD, *labels), read=read)
    return _of_gpu(metric, CARDS)


def _container(name: str, text: str) -> Metric:
    return EXPORTER.gauge(f"gpushare_container_{name}", text, *_CONTAINER)


DRIVER_INFO: Final = EXPORTER.gauge(
    "gpushare_driver_info",
    "The driver of a node and the newest CUDA version that it supports; always 1.",
    "node",
    "driver",
    "cuda",
)
CARD_INFO: Final = _card_by(
    "info",
    "A GPU that the driver reports; always 1.",
    ("model", "pci"),
    lambda gpu: {(gpu.model, gpu.pci): 1},
)
CARD_MEMORY: Final = _card(
    "memory_bytes",
    "Allocatable memory: total memory without the driver's reserve.",
    lambda gpu: gpu.total_bytes,
)
CARD_USED: Final = _card("memory_used_bytes", "Memory used.", lambda gpu: gpu.used_bytes)
CARD_UTILIZATION: Final = _card(
    "utilization_ratio", "GPU utilization.", lambda gpu: _divided(gpu.gpu_percent, 100)
)
CARD_MEMORY_UTILIZATION: Final = _card(
    "memory_utilization_ratio", "Memory bandwidth utilization.", lambda gpu: _divided(gpu.memory_percent, 100)
)
CARD_ENCODER: Final = _card(
    "encoder_utilization_ratio", "Encoder utilization.", lambda gpu: _divided(gpu.encoder_percent, 100)
)
CARD_DECODER: Final = _card(
    "decoder_utilization_ratio", "Decoder utilization.", lambda gpu: _divided(gpu.decoder_percent, 100)
)
CARD_TEMPERATURE: Final = _card("temperature_celsius", "GPU temperature.", lambda gpu: gpu.celsius)
CARD_MEMORY_TEMPERATURE: Final = _card(
    "memory_temperature_celsius", "Memory temperature.", lambda gpu: gpu.memory_celsius
)
CARD_POWER: Final = _card("power_watts", "Power draw.", lambda gpu: _divided(gpu.power_mw, 1000))
CARD_POWER_LIMIT: Final = _card(
    "power_limit_watts", "Enforced power limit.", lambda gpu: _divided(gpu.power_limit_mw, 1000)
)
CARD_ENERGY: Final = _card(
    "energy_joules",
    "Energy consumed since the driver was loaded.",
    lambda gpu: _divided(gpu.energy_mj, 1000),
    kind="counter",
)
CARD_SM_CLOCK: Final = _card("sm_clock_hertz", "SM clock.", lambda gpu: _times(gpu.sm_mhz, 1_000_000))
CARD_MEMORY_CLOCK: Final = _card(
    "memory_clock_hertz", "Memory clock.", lambda gpu: _times(gpu.memory_mhz, 1_000_000)
)
CARD_ECC: Final = _card_by(
    "ecc_errors",
    "ECC errors since the driver was loaded by kind (corrected, uncorrected).",
    ("kind",),
    lambda gpu: {("corrected",): gpu.ecc_corrected, ("uncorrected",): gpu.ecc_uncorrected},
    kind="counter",
)
CARD_ROWS: Final = _card_by(
    "remapped_rows",
    "Memory rows remapped after errors, by kind of error.",
    ("kind",),
    lambda gpu: {("corrected",): gpu.remapped_corrected, ("uncorrected",): gpu.remapped_uncorrected},
)
CARD_XIDS: Final = _card_by(
    "xid_errors",
    "XID errors that the driver reported to the exporter.",
    ("xid",),
    lambda gpu: {(str(xid),): count for xid, count in sorted((gpu.xids or {}).items())},
    kind="counter",
)
CARD_PCIE_SENT: Final = _card(
    "pcie_transmit_bytes_per_second", "PCIe transmit throughput.", lambda gpu: _times(gpu.pcie_tx_kb, 1000)
)
CARD_PCIE_RECEIVED: Final = _card(
    "pcie_receive_bytes_per_second", "PCIe receive throughput.", lambda gpu: _times(gpu.pcie_rx_kb, 1000)
)
CARD_PCIE_REPLAYS: Final = _card(
    "pcie_replays", "PCIe replays.", lambda gpu: gpu.pcie_replays, kind="counter"
)

CONTAINER_ALLOCATED: Final = _container("memory_allocated_bytes", "GPU memory allocated to a container.")
CONTAINER_USED: Final = _container("memory_used_bytes", "GPU memory used by a container; 0 while it is idle.")
CONTAINER_CORE: Final = _container(
    "compute_allocated_ratio",
    "Fraction of the GPU's compute allocated to a container; 0 if compute is not divided.",
)
CONTAINER_UTILIZATION: Final = _container(
    "utilization_ratio", "SM utilization of a container on the GPU; 0 while it is idle."
)
CONTAINER_REMOTE: Final = _container(
    "cpus_remote",
    "1 if no CPU that a container may use is on the NUMA node of its GPU, else 0; absent while the container "
    "has no process there, or if the machine does not report NUMA nodes.",
)

CONTAINER_LIMIT: Final = _container("memory_limit_bytes", "Enforced GPU memory limit of a container.")
CONTAINER_COUNTED: Final = _container(
    "memory_counted_bytes", "GPU memory that the isolation library counts for a container."
)
CONTAINER_PEAK: Final = _container(
    "memory_counted_peak_bytes", "Peak GPU memory that the isolation library counted for a container."
)
CONTAINER_REFUSALS: Final = EXPORTER.counter(
    "gpushare_container_memory_refusals",
    "Memory requests of a container that the isolation library refused.",
    *_CONTAINER,
)
CONTAINER_REFUSED: Final = _container(
    "memory_refused_bytes",
    "Largest memory request of a container that the isolation library refused and the GPU could hold; absent "
    "if there is none.",
)
CONTAINER_NEEDED: Final = _container(
    "memory_needed_bytes",
    "Smallest memory limit that admits the refused requests of a container, each with the memory in use at "
    "that moment; absent if the GPU could hold none of them.",
)
CONTAINER_CROWDED: Final = EXPORTER.counter(
    "gpushare_container_processes_refused",
    "Processes of a container that were refused all GPU memory, because too many other processes of "
    "the container used GPUs; the same on each GPU.",
    *_CONTAINER,
)
CONTAINER_UNCOUNTED: Final = _container(
    "memory_uncounted_bytes",
    "GPU memory that the driver reports for a container and the isolation library does not count; 0 if there "
    "is none.",
)
CONTAINER_UNSEEN: Final = _container(
    "memory_unseen_bytes",
    "GPU memory that the isolation library counts for a container and the driver does not report; 0 if there "
    "is none.",
)
CARD_UNHELD: Final = EXPORTER.gauge(
    "gpushare_card_unheld_processes",
    "Processes without an enforced limit on a GPU that has containers with limits.",
    *_CARD,
)

SOURCE_UP: Final = EXPORTER.gauge(
    "gpushare_exporter_source_up",
    "1 while the source responds, else 0; the series of the source are then absent.",
    "source",
)
SOURCE_DURATION: Final = EXPORTER.gauge(
    "gpushare_exporter_source_duration_seconds", "Duration of the last read of the source.", "source"
)
SOURCE_FAILURES: Final = EXPORTER.counter(
    "gpushare_exporter_source_failures",
    "Reads of the source that timed out or failed.",
    "source",
)
SNAPSHOT_AT: Final = EXPORTER.gauge(
    "gpushare_exporter_snapshot_timestamp_seconds", "Time of the snapshot in seconds since 1970."
)
CARDS_UNREADABLE: Final = EXPORTER.gauge(
    "gpushare_exporter_unreadable_cards", "GPUs that the driver lists but cannot describe."
)
REGIONS_UNREADABLE: Final = EXPORTER.gauge(
    "gpushare_exporter_unreadable_regions",
    "Containers with an unreadable or invalid limit file or region.",
)

# --- metrics API --------------------------------------------------------------------------------

METRICS_API: Final = Group()

API_REQUESTS: Final = METRICS_API.counter(
    "gpushare_metrics_api_requests",
    "Requests by kind (pods, nodes, namespaces, gpupods, explanation, gpufits, other) and HTTP status.",
    "kind",
    "code",
)
API_LATENCY: Final = METRICS_API.histogram(
    "gpushare_metrics_api_request_duration_seconds",
    "Duration of requests by kind of object.",
    "kind",
)
API_REVIEWS: Final = METRICS_API.counter(
    "gpushare_metrics_api_access_reviews",
    "Access reviews sent to the API server by result (allowed, denied, error).",
    "result",
)
API_SCRAPES: Final = METRICS_API.counter(
    "gpushare_metrics_api_scrapes", "Scrapes of exporters by result (ok, error).", "result"
)
API_SYNCED: Final = METRICS_API.gauge(
    "gpushare_metrics_api_cache_synced", "1 once the resource has been listed.", "resource"
)
API_WATCH_RESTARTS: Final = METRICS_API.counter(
    "gpushare_metrics_api_watch_restarts",
    "Failed lists and watches that were restarted.",
    "resource",
)
API_CERTIFICATE_EXPIRY: Final = METRICS_API.gauge(
    "gpushare_metrics_api_certificate_expiration_timestamp_seconds",
    "When the certificate of the metrics API expires.",
)

# --- webhook of the scheduler's name ------------------------------------------------------------

SCHEDULER_NAMING: Final = Group()

NAMING_CERTIFICATE_EXPIRY: Final = SCHEDULER_NAMING.gauge(
    "gpushare_scheduler_name_certificate_expiration_timestamp_seconds",
    "When the certificate of the webhook that names the scheduler expires.",
)

# --- board in a cluster -------------------------------------------------------------------------

BOARD: Final = Group()

BOARD_CERTIFICATE_EXPIRY: Final = BOARD.gauge(
    "gpushare_board_certificate_expiration_timestamp_seconds",
    "When the certificate of the board expires.",
)

# --- library installer --------------------------------------------------------------------------

ISOLATION: Final = Group()

LIBRARY_INFO: Final = ISOLATION.gauge(
    "gpushare_isolation_library_info",
    "Version of the isolation library for new containers of the node; always 1.",
    "version",
)

# --- MPS daemon ---------------------------------------------------------------------------------

MPS: Final = Group()

MPS_UP: Final = MPS.gauge(
    "gpushare_mps_up", "1 while the MPS control daemon of the GPU responds, else 0.", "uuid"
)
MPS_STARTS: Final = MPS.counter(
    "gpushare_mps_starts",
    "Starts of the MPS control daemon of the GPU, including the first.",
    "uuid",
)
MPS_CLIENTS: Final = MPS.gauge(
    "gpushare_mps_clients", "Client processes of the MPS servers of the GPU.", "uuid"
)
MPS_EXCLUSIVE: Final = MPS.gauge(
    "gpushare_mps_exclusive",
    "1 if the GPU's compute mode admits only MPS, 0 if programs can bypass MPS.",
    "uuid",
)

# --- derived ------------------------------------------------------------------------------------

DERIVED: Final = Group()

DCGM_GPU_MEM_USED_RATIO: Final = DERIVED.gauge(
    "DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO",
    "GPU memory used by a pod as a fraction of its allocation. Not exported: the metrics API and the rules "
    "of prometheus-adapter compute it from DCGM_CUSTOM_PROCESS_MEM_USED and "
    "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED.",
    "NamespaceName",
    "PodName",
)

ALL: Final = (
    *COMMON,
    *EXTENDER,
    *DEVICE_PLUGIN,
    *EXPORTER,
    *METRICS_API,
    *SCHEDULER_NAMING,
    *BOARD,
    *ISOLATION,
    *MPS,
    *DERIVED,
)
