"""GPUs that share the memory of their host are named as that, and shared by a declared size."""

from dataclasses import replace

import pytest

from gpushare.deviceplugin.core.shared_gpus import SharedGpus, shared_gpus
from gpushare.deviceplugin.core.unified_memory import with_declared_memory
from gpushare.model.hardware import Gpu, Inventory
from gpushare.model.options import MemoryUnit

GB10 = Gpu(0, "GPU-spark", "NVIDIA GB10", 0, unified=True)
T4 = Gpu(1, "GPU-a", "Tesla T4", 15079)


def found(*gpus: Gpu, declared_mib: int | None = None, unit: MemoryUnit = MemoryUnit.GIB) -> SharedGpus:
    return shared_gpus(with_declared_memory(Inventory("580.126.09", "13.0", gpus), declared_mib), unit)


def test_without_a_declared_size_it_is_named_with_its_model_and_the_remedy() -> None:
    (notice,) = found(GB10).notices
    assert notice == (
        "GPU 0 (NVIDIA GB10) is not shared: it shares the memory of its host, so the driver reports no size "
        "and no use of its memory; to share it, declare how much of that memory pods may allocate (flag "
        "--unified-memory-mib, unifiedMemoryMib in a stack)"
    )


@pytest.mark.parametrize(("unit", "units"), [(MemoryUnit.GIB, 64), (MemoryUnit.MIB, 65536)])
def test_a_declared_size_is_shared(unit: MemoryUnit, units: int) -> None:
    shared = found(GB10, declared_mib=65536, unit=unit)
    assert [(card.uuid, card.mib, card.units) for card in shared.cards] == [("GPU-spark", 65536, units)]
    assert (
        "GPU 0 (NVIDIA GB10): it shares the memory of its host, of which pods may allocate 65536 MiB, as "
        in (" ".join(shared.notices))
    )


def test_a_declared_size_is_less_than_the_memory_of_the_host() -> None:
    spark = replace(GB10, host_mib=124_610)
    (notice,) = found(spark, declared_mib=124_610).notices
    assert (
        "which has 124610 MiB, and the declared 124610 MiB leave nothing for the host: declare less" in notice
    )
    assert [card.mib for card in found(spark, declared_mib=124_609).cards] == [124_609]


def test_a_declared_size_is_not_that_of_a_gpu_with_memory() -> None:
    assert [card.mib for card in found(GB10, T4, declared_mib=65536).cards] == [65536, 15079]


def test_a_declared_size_of_less_than_a_unit_is_refused_as_for_other_gpus() -> None:
    (notice,) = found(GB10, declared_mib=1000).notices
    assert notice.endswith("its 1000 MiB are less than one unit of 1 GiB; --memory-unit=MiB would show it")
