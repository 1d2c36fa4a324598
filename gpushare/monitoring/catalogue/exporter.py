"""Metrics of the exporter in names of our own and base units."""

from typing import Final

from gpushare.monitoring.catalogue.metric import Kind, Metric

_CARD: Final = ("node", "card", "uuid")
_CONTAINER: Final = ("node", "namespace", "pod", "container", "card", "uuid")


def _card(name: str, text: str, *labels: str, kind: Kind = "gauge") -> Metric:
    return Metric(f"gpushare_card_{name}", kind, text, (*_CARD, *labels))


def _container(name: str, text: str, kind: Kind = "gauge") -> Metric:
    return Metric(f"gpushare_container_{name}", kind, text, _CONTAINER)


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

CONTAINER_LIMIT: Final = _container(
    "memory_limit_bytes", "Memory of the card that isolation holds a container to."
)
CONTAINER_COUNTED: Final = _container(
    "memory_counted_bytes", "Memory of the card that the isolation library counts for a container."
)
CONTAINER_PEAK: Final = _container("memory_counted_peak_bytes", "The most that it has counted.")
CONTAINER_REFUSALS: Final = _container(
    "memory_refusals", "Times that the isolation library refused a container memory.", "counter"
)
CONTAINER_UNCOUNTED: Final = _container(
    "memory_uncounted_bytes",
    "Memory that the driver says a container uses and the isolation library has not counted, else 0.",
)
CONTAINER_UNSEEN: Final = _container(
    "memory_unseen_bytes",
    "Memory that the isolation library has counted for a container and the driver does not see, else 0.",
)
CARD_UNHELD: Final = _card(
    "unheld_processes", "Processes on a card with held containers that the isolation library does not hold."
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
REGIONS_UNREADABLE: Final = Metric(
    "gpushare_exporter_unreadable_regions",
    "gauge",
    "Containers whose limit or region cannot be read or believed.",
)
