"""What a later reading of the GPUs changes; ``tests/property/test_gpu_readings.py`` has what always holds."""

from collections.abc import Collection
from dataclasses import replace

from gpushare.deviceplugin.core.gpu_readings import Adopted, GpusInUse, adopt, without_growth
from gpushare.deviceplugin.core.shared_gpus import reason_against
from gpushare.model.hardware import Gpu, Inventory
from gpushare.model.options import MemoryUnit

ONE = Gpu(0, "GPU-a", "Tesla T4", 15079, mig=False, compute_mode="Default")
TWO = Gpu(1, "GPU-b", "Tesla T4", 15079, mig=False, compute_mode="Default")


def read(*found: Gpu, allocated: Collection[str] = (), unreadable: dict[int, str] | None = None) -> Adopted:
    """The GPUs after that reading; before it, there were both."""
    before = Inventory("580", None, (ONE, TWO))
    after = Inventory("580", None, found, unreadable=unreadable or {})
    usage = GpusInUse([ONE.uuid, TWO.uuid], allocated)
    return adopt(before, after, usage, lambda gpu: reason_against(gpu, MemoryUnit.GIB, refuse_unlisted=False))


def test_an_equal_reading_changes_nothing() -> None:
    assert read(ONE, TWO) == Adopted(Inventory("580", None, (ONE, TWO)))


def test_a_gpu_in_mig_mode_stays_listed_and_takes_no_pods() -> None:
    found = read(replace(ONE, mig=True, mib=14000), TWO)
    assert found.inventory.gpus == (ONE, TWO)
    assert found.unfit == {"GPU-a": "it is in MIG mode, which partitions it already"}


def test_a_gpu_that_programs_must_not_use_takes_no_pods() -> None:
    found = read(ONE, replace(TWO, compute_mode="Prohibited"))
    assert list(found.unfit) == ["GPU-b"]
    assert "nvidia-smi -i 1 -c DEFAULT" in found.unfit["GPU-b"]


def test_another_size_is_adopted_without_allocations() -> None:
    larger = replace(ONE, mib=16130)
    assert read(larger, TWO) == Adopted(Inventory("580", None, (larger, TWO)))


def test_a_larger_size_is_adopted_after_the_last_allocation() -> None:
    found = read(replace(ONE, mib=16130), TWO, allocated=["GPU-a"])
    assert found == Adopted(Inventory("580", None, (ONE, TWO)))


def test_a_gpu_that_became_smaller_takes_no_pods_until_the_last_allocation_is_gone() -> None:
    found = read(replace(ONE, mib=14141), TWO, allocated=["GPU-a"])
    assert found.inventory.gpus == (ONE, TWO)
    assert found.unfit["GPU-a"].startswith("it has 14141 MiB instead of 15079")


def test_a_gpu_that_is_gone_stays_listed_and_takes_no_pods() -> None:
    found = read(ONE)
    assert found.inventory.gpus == (ONE, TWO)
    assert found.unfit == {"GPU-b": "the driver does not report it any more"}


def test_a_gpu_that_cannot_be_read_stays_for_the_health_check() -> None:
    assert read(ONE, unreadable={1: "GPU is lost"}) == Adopted(Inventory("580", None, (ONE, TWO)))


def test_a_swapped_gpu_replaces_the_one_with_its_index() -> None:
    other = replace(TWO, uuid="GPU-c", mib=22919)
    assert read(ONE, other) == Adopted(Inventory("580", None, (ONE, other)))


def test_an_added_gpu_is_shared() -> None:
    added = Gpu(2, "GPU-c", "Tesla P40", 22919)
    assert read(ONE, TWO, added) == Adopted(Inventory("580", None, (ONE, TWO, added)))


def test_a_changed_index_is_adopted() -> None:
    moved = replace(TWO, index=0)
    found = read(moved, allocated=["GPU-b"])
    assert found == Adopted(Inventory("580", None, (moved,)))


def within(*found: Gpu) -> tuple[Gpu, ...]:
    """The GPUs of a reading that do not add units to ONE, which is shared."""
    before = Inventory("580", None, (ONE, replace(TWO, mig=True)))
    return without_growth(before, Inventory("580", None, found), ["GPU-a"], in_mig_mode).gpus


def in_mig_mode(gpu: Gpu) -> str | None:
    return "it is in MIG mode" if gpu.mig else None


def test_without_growth_a_shared_gpu_is_no_larger_than_before() -> None:
    assert within(replace(ONE, mib=16130)) == (ONE,)
    smaller = replace(ONE, mib=14141)
    assert within(smaller) == (smaller,)


def test_without_growth_no_further_gpu_is_shared() -> None:
    assert within(ONE, TWO) == (ONE,)
    excluded = replace(TWO, mig=True)
    assert within(ONE, excluded) == (ONE, excluded)
