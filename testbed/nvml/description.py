"""The description of a stub NVML: GPUs, their links, and their failures.

What belongs here: the schema of the JSON document. What does not: rules across its fields (``rules``),
values of real GPUs (``profiles``) and the state file of the stub (``render``). For a field that is null,
NVML returns NOT_SUPPORTED.

    {"era": 535, "cards": [{"uuid": "GPU-…", "name": "Tesla T4", "pci": "00000000:04:00.0",
                            "total_mib": 15360, "reserved_mib": 281, …}],
     "pairs": [{"cards": [0, 1], "level": "single", "nvlinks": 2}], "failures": [], "events": []}
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0)]
Flag = Annotated[int, Meta(ge=0, le=1)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Pid = Annotated[int, Meta(ge=1)]
Code = Annotated[int, Meta(ge=1, le=999)]
Line = Annotated[str, Meta(min_length=1, max_length=95, pattern=r"^[^\n]+$")]
Pci = Annotated[str, Meta(pattern=r"^([0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])?$")]
Uuid = Annotated[str, Meta(pattern=r"^(GPU-[0-9A-Za-z-]+)?$", max_length=95)]

MAX_CARDS: Final = 32
MAX_PROCESSES: Final = 128
MAX_EVENTS: Final = 64
MAX_FAILURES: Final = 64


class GpuProcess(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A process on a GPU, and its GPU utilization."""

    pid: Pid
    used_mib: Count = 0
    sm: Percent = 0
    memory: Percent = 0
    encoder: Percent = 0
    decoder: Percent = 0
    kind: Literal["compute", "graphics", "mps"] = "compute"


class NvmlGpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One GPU. Empty texts and a missing minor are generated from its position.

    ``numa`` is the node of its bus in sysfs; ``numa_id`` is for GPUs that are a NUMA node themselves. If
    ``used_mib`` is null, it is the sum of the processes. ``total_mib`` is null for a GPU that shares the
    memory of its host. ``events`` is a mask of nvmlEventType…,
    ``nvlinks`` the number of links, ``switch_links`` the number of those to an NVSwitch. A ``lost`` GPU
    fell off the bus. Drivers that know no recovery action report neither ``recovery_action`` nor its events.
    """

    name: Line
    total_mib: Count | None
    reserved_mib: Count = 0
    used_mib: Count | None = None
    uuid: Uuid = ""
    pci: Pci = ""
    serial: Annotated[str, Meta(pattern=r"^[0-9]*$", max_length=30)] = ""
    minor: Count | None = None
    numa: Annotated[int, Meta(ge=-1)] | None = 0
    numa_id: Count | None = None
    lost: bool = False
    processes: Annotated[tuple[GpuProcess, ...], Meta(max_length=MAX_PROCESSES)] = ()

    arch: Count | None = None
    brand: Count | None = 2
    cc_major: Count | None = None
    cc_minor: Count | None = None
    compute_mode: Annotated[int, Meta(ge=0, le=3)] | None = 0
    persistence: Flag | None = 1
    mig: Flag | None = None
    bar1_total_mib: Count | None = 256
    bar1_used_mib: Count | None = 2

    gpu_util: Percent | None = 0
    memory_util: Percent | None = 0
    encoder_util: Percent | None = 0
    decoder_util: Percent | None = 0
    temperature: Count | None = 35
    memory_temperature: Count | None = None
    fan: Percent | None = None
    power_mw: Count | None = 30_000
    power_limit_mw: Count | None = 250_000
    energy_mj: Count | None = None
    pstate: Annotated[int, Meta(ge=0, le=15)] | None = 0
    sm_clock: Count | None = 1000
    memory_clock: Count | None = 5000
    video_clock: Count | None = 1000
    max_sm_clock: Count | None = 1500
    max_memory_clock: Count | None = 5000
    max_video_clock: Count | None = 1400
    throttle_reasons: Count | None = 0

    ecc: Flag | None = 1
    ecc_corrected: Count | None = 0
    ecc_uncorrected: Count | None = 0
    ecc_corrected_ever: Count | None = 0
    ecc_uncorrected_ever: Count | None = 0
    remapped_corrected: Count | None = None
    remapped_uncorrected: Count | None = None
    remap_pending: Flag | None = None
    remap_failed: Flag | None = None
    recovery_action: Count | None = 0

    pcie_tx_kib: Count | None = 0
    pcie_rx_kib: Count | None = 0
    pcie_replays: Count | None = 0
    pcie_gen: Count | None = 3
    pcie_width: Count | None = 16
    pcie_max_gen: Count | None = 3
    pcie_max_width: Count | None = 16
    events: Count | None = 0x801F
    nvlinks: Annotated[int, Meta(ge=0, le=18)] | None = None
    switch_links: Count = 0

    @property
    def used(self) -> int:
        """Used MiB, without the reserve of the driver."""
        return sum(p.used_mib for p in self.processes) if self.used_mib is None else self.used_mib


class Pair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The link of two GPUs, by position: topology level of NVML, and number of NVLinks."""

    cards: tuple[Count, Count]
    level: Literal["internal", "single", "multiple", "hostbridge", "node", "system"] = "node"
    nvlinks: Count = 0


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A function that returns an NVML error code, for the GPU at a position or for all.

    ``nvmlDeviceGetFieldValues[230]`` is the field of that number: the function succeeds and the field fails.
    """

    function: str
    code: Code
    card: Count | None = None


class NvmlEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An XID error; ``uuid`` is null if the driver does not report the GPU.

    With ``xid`` null it says that the recovery action changed, to any value.
    """

    number: Annotated[int, Meta(ge=1)]
    xid: Count | None
    uuid: Uuid | None = None


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole description. With ``hang``, every call blocks until the field is reset.

    ``driver`` is the version of the kernel driver, that of the era if empty. A process whose library has
    another version, because the driver was replaced after its first call, gets LIB_RM_VERSION_MISMATCH from
    every call until it ends. While the driver is not ``loaded``, every call fails.
    """

    era: int
    cards: Annotated[tuple[NvmlGpu, ...], Meta(max_length=MAX_CARDS)] = ()
    pairs: tuple[Pair, ...] = ()
    hang: bool = False
    driver: Annotated[str, Meta(pattern=r"^[0-9.]*$", max_length=30)] = ""
    loaded: bool = True
    failures: Annotated[tuple[Failure, ...], Meta(max_length=MAX_FAILURES)] = ()
    events: Annotated[tuple[NvmlEvent, ...], Meta(max_length=MAX_EVENTS)] = ()
