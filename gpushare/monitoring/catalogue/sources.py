"""What the exporter shows in names of others, which dashboards and rules of the source documents read.

The source documents' own (DCGM_*, in percent, MiB, MHz), and cAdvisor's of old.
"""

from typing import Final

from gpushare.monitoring.catalogue.metric import Kind, Metric

_DCGM_CARD: Final = ("NodeName", "UUID", "gpu", "device", "modelName")
_DCGM_CONTAINER: Final = ("NodeName", "NamespaceName", "PodName", "ContainerName", *_DCGM_CARD[1:])
_CADVISOR: Final = ("namespace", "pod", "container", "make", "model", "acc_id")
PID_LABEL: Final = "pid"
"""The label that DCGM_CUSTOM_PROCESS_* have besides where the exporter tells processes apart."""


def _device(name: str, text: str, kind: Kind = "gauge") -> Metric:
    return Metric(f"DCGM_FI_DEV_{name}", kind, text, _DCGM_CARD)


def _custom(name: str, text: str) -> Metric:
    return Metric(f"DCGM_CUSTOM_{name}", "gauge", text, _DCGM_CONTAINER)


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
