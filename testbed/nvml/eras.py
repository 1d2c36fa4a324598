"""The functions of the NVML library of each driver, which the libraries of the stub export.

What belongs here: facts about NVIDIA's releases. What does not: the functions of the stub (``native/``).

``FIRST_IN`` maps a driver branch to the functions that are new in its NVML header, among those that the
stub implements. Sources, each a header that NVIDIA published with a CUDA release:

    ======  ====  ==========================================================
    branch  CUDA  header
    ======  ====  ==========================================================
    418     10.1  NVIDIA/gpu-monitoring-tools edb7919, bindings/go/nvml/nvml.h
    450     11.0  NVIDIA/go-nvml, first gen/nvml/nvml.h
    455     11.1  NVIDIA/go-nvml 7dce688
    470     11.4  NVIDIA/go-nvml v0.11.4-0
    510     11.6  NVIDIA/go-nvml v0.11.6-0
    535     12.2  package nvidia-nvml-dev-cu12 12.2.140
    580     13.0  package nvidia-nvml-dev 13.0.87
    615     13.4  package nvidia-nvml-dev 13.4.92
    ======  ====  ==========================================================

Headers between these were not checked: a function is listed at the first of these headers that has it.
No header of 440 (CUDA 10.2) was available: it is assumed to equal 418. ``nvmlDeviceGetPciInfo_v2`` is not
in the header of 418 but in its library, as the older binding nvidia-ml-py 7.352 shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_RECOVERY_ACTION_IN: Final = 565


@dataclass(frozen=True, slots=True)
class Era:
    """A driver release. ``cuda`` is 1000 × major + 10 × minor."""

    driver: str
    cuda: int

    @property
    def branch(self) -> int:
        """The first number of the driver version."""
        return int(self.driver.split(".")[0])

    @property
    def nvml(self) -> str:
        """The version of the library: major version of CUDA, then the driver version."""
        return f"{self.cuda // 1000}.{self.driver}"

    @property
    def v1_counts_reserve(self) -> bool:
        """Whether ``nvmlDeviceGetMemoryInfo`` includes the reserve of the driver in total and used.

        It does since a second version of the function reports the reserve separately.
        """
        return "nvmlDeviceGetMemoryInfo_v2" in functions(self.branch)

    @property
    def has_recovery_action(self) -> bool:
        """Whether GPUs have a recovery action: a field, and events about it.

        Source: NVML's change log, "Changes between v560 and v565".
        """
        return self.branch >= _RECOVERY_ACTION_IN


ERAS: Final[Mapping[int, Era]] = {
    418: Era("418.87.01", 10010),
    440: Era("440.118.02", 10020),
    470: Era("470.256.02", 11040),
    535: Era("535.161.08", 12020),
    580: Era("580.65.06", 13000),
    615: Era("615.71.09", 13040),
}
"""The simulated driver releases, by branch."""
NEWEST: Final = max(ERAS)

FIRST_IN: Final[Mapping[int, tuple[str, ...]]] = {
    418: (
        "nvmlDeviceGetBAR1MemoryInfo",
        "nvmlDeviceGetBrand",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetCount",
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetCurrPcieLinkGeneration",
        "nvmlDeviceGetCurrPcieLinkWidth",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        "nvmlDeviceGetDecoderUtilization",
        "nvmlDeviceGetEccMode",
        "nvmlDeviceGetEncoderUtilization",
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetFanSpeed",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetGraphicsRunningProcesses",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetHandleByPciBusId",
        "nvmlDeviceGetHandleByPciBusId_v2",
        "nvmlDeviceGetHandleByUUID",
        "nvmlDeviceGetIndex",
        "nvmlDeviceGetMaxClockInfo",
        "nvmlDeviceGetMaxPcieLinkGeneration",
        "nvmlDeviceGetMaxPcieLinkWidth",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMinorNumber",
        "nvmlDeviceGetName",
        "nvmlDeviceGetNvLinkRemotePciInfo",
        "nvmlDeviceGetNvLinkRemotePciInfo_v2",
        "nvmlDeviceGetNvLinkState",
        "nvmlDeviceGetPciInfo",
        "nvmlDeviceGetPciInfo_v2",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetPcieReplayCounter",
        "nvmlDeviceGetPcieThroughput",
        "nvmlDeviceGetPerformanceState",
        "nvmlDeviceGetPersistenceMode",
        "nvmlDeviceGetPowerManagementLimit",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetProcessUtilization",
        "nvmlDeviceGetSamples",
        "nvmlDeviceGetSerial",
        "nvmlDeviceGetSupportedEventTypes",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetTopologyCommonAncestor",
        "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceRegisterEvents",
        "nvmlDeviceSetComputeMode",
        "nvmlErrorString",
        "nvmlEventSetCreate",
        "nvmlEventSetFree",
        "nvmlEventSetWait",
        "nvmlInit",
        "nvmlInitWithFlags",
        "nvmlInit_v2",
        "nvmlShutdown",
        "nvmlSystemGetCudaDriverVersion",
        "nvmlSystemGetCudaDriverVersion_v2",
        "nvmlSystemGetDriverVersion",
        "nvmlSystemGetNVMLVersion",
    ),
    450: (
        "nvmlDeviceGetArchitecture",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetMigDeviceHandleByIndex",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceIsMigDeviceHandle",
        "nvmlEventSetWait_v2",
    ),
    455: (
        "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetGraphicsRunningProcesses_v2",
    ),
    470: (
        "nvmlDeviceGetMPSComputeRunningProcesses",
        "nvmlDeviceGetMPSComputeRunningProcesses_v2",
        "nvmlDeviceGetNvLinkRemoteDeviceType",
    ),
    510: (
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "nvmlDeviceGetMemoryInfo_v2",
    ),
    535: ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetRunningProcessDetailList"),
    580: (
        "nvmlDeviceGetNumaNodeId",
        "nvmlDeviceGetProcessesUtilizationInfo",
        "nvmlDeviceGetTemperatureV",
    ),
    615: (
        "nvmlDeviceGetMemoryLimits_v1",
        "nvmlDeviceSetMemoryLimits_v1",
    ),
}


def functions(branch: int) -> frozenset[str]:
    """Return the functions that the stub of a driver branch exports."""
    return frozenset(name for first, names in FIRST_IN.items() if first <= branch for name in names)
