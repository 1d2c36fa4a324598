"""GPUs as their drivers describe them, by short name.

What belongs here: values of real GPUs. The usable memory (total without reserve) is that of the ACK
documentation: T4 15079 MiB, P40 22919, V100 16130, TITAN Xp 12196. For other GPUs, total is the value of
nvidia-smi, and the reserve, which depends on the driver, is an assumption.

GB10 (DGX Spark) shares the memory of its host. Both versions of nvmlDeviceGetMemoryInfo are not supported,
and neither are fan, power limit, MIG and ECC, as users of drivers 580.126 and 580.173 report (pull requests
208 of XuehaiPan/nvitop and 345 of snowflakedb/ArcticTraining); processes have a size. Its brand and BAR1 are
not published.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gpushare.errors import ConfigError
from testbed.nvml.description import NvmlGpu

_NO_ECC: Final[Mapping[str, Any]] = dict.fromkeys(
    ("ecc", "ecc_corrected", "ecc_uncorrected", "ecc_corrected_ever", "ecc_uncorrected_ever")
)
_SXM: Final[Mapping[str, Any]] = {
    "brand": 14,
    "mig": 0,
    "energy_mj": 0,
    "memory_temperature": 35,
    "remapped_corrected": 0,
    "remapped_uncorrected": 0,
    "remap_pending": 0,
    "remap_failed": 0,
}
_A100: Final[Mapping[str, Any]] = {
    **_SXM,
    "arch": 7,
    "cc_major": 8,
    "cc_minor": 0,
    "power_limit_mw": 400_000,
    "max_sm_clock": 1410,
    "pcie_gen": 4,
    "pcie_max_gen": 4,
    "nvlinks": 12,
}
_HOPPER: Final[Mapping[str, Any]] = {
    **_SXM,
    "arch": 9,
    "cc_major": 9,
    "cc_minor": 0,
    "power_limit_mw": 700_000,
    "max_sm_clock": 1980,
    "pcie_gen": 5,
    "pcie_max_gen": 5,
    "nvlinks": 18,
}

# nvmlDeviceArchitecture_t: 4 Pascal, 5 Volta, 6 Turing, 7 Ampere, 9 Hopper, 10 Blackwell.
# nvmlBrandType_t: 2 Tesla, 6 TITAN, 14 NVIDIA. Energy is counted since Volta, rows are remapped and MIG
# exists since Ampere.
PROFILES: Final[Mapping[str, NvmlGpu]] = {
    "T4": NvmlGpu(
        name="Tesla T4",
        total_mib=15360,
        reserved_mib=281,
        arch=6,
        cc_major=7,
        cc_minor=5,
        energy_mj=0,
        power_limit_mw=70_000,
        max_sm_clock=1590,
        max_memory_clock=5001,
    ),
    "P40": NvmlGpu(
        name="Tesla P40",
        total_mib=23040,
        reserved_mib=121,
        arch=4,
        cc_major=6,
        cc_minor=1,
        power_limit_mw=250_000,
        max_sm_clock=1531,
        max_memory_clock=3615,
    ),
    "V100": NvmlGpu(
        name="Tesla V100-SXM2-16GB",
        total_mib=16384,
        reserved_mib=254,
        arch=5,
        cc_major=7,
        cc_minor=0,
        energy_mj=0,
        memory_temperature=35,
        power_limit_mw=300_000,
        max_sm_clock=1530,
        max_memory_clock=877,
        nvlinks=6,
    ),
    "TITAN Xp": NvmlGpu(
        name="TITAN Xp",
        total_mib=12288,
        reserved_mib=92,
        arch=4,
        brand=6,
        cc_major=6,
        cc_minor=1,
        fan=23,
        power_limit_mw=250_000,
        max_sm_clock=1911,
        max_memory_clock=5705,
        **_NO_ECC,
    ),
    "A100-40G": NvmlGpu(
        name="NVIDIA A100-SXM4-40GB", total_mib=40960, reserved_mib=424, max_memory_clock=1215, **_A100
    ),
    "A100-80G": NvmlGpu(
        name="NVIDIA A100-SXM4-80GB", total_mib=81920, reserved_mib=669, max_memory_clock=1593, **_A100
    ),
    "H100": NvmlGpu(
        name="NVIDIA H100 80GB HBM3", total_mib=81559, reserved_mib=551, max_memory_clock=2619, **_HOPPER
    ),
    "GB10": NvmlGpu(
        name="NVIDIA GB10",
        total_mib=None,
        pci="0000000F:01:00.0",
        arch=10,
        brand=None,
        cc_major=12,
        cc_minor=1,
        bar1_total_mib=None,
        bar1_used_mib=None,
        temperature=36,
        power_mw=11_170,
        power_limit_mw=None,
        **_NO_ECC,
    ),
    "H200": NvmlGpu(name="NVIDIA H200", total_mib=143771, reserved_mib=604, max_memory_clock=3201, **_HOPPER),
}


def card(profile: str, **changes: Any) -> NvmlGpu:
    """Return a GPU of a known model, with ``changes`` to its fields.

    Raises ConfigError for an unknown profile or field.
    """
    if profile not in PROFILES:
        raise ConfigError(f"card {profile!r} is unknown: choose one of {', '.join(PROFILES)}")
    unknown = changes.keys() - set(NvmlGpu.__struct_fields__)
    if unknown:
        raise ConfigError(f"card {profile!r} has no field {', '.join(sorted(unknown))}")
    return msgspec.structs.replace(PROFILES[profile], **changes)
