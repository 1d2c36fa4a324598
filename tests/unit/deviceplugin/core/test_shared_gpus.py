"""Which GPUs are shared, their sizes, and the reasons for excluded ones."""

from dataclasses import replace

import pytest

from gpushare.deviceplugin.core.shared_gpus import (
    ExcludedGpu,
    SharedGpus,
    changes,
    shared_gpus,
    units_of,
    with_declared_memory,
)
from gpushare.model.cards import Card
from gpushare.model.hardware import Gpu, Inventory, Link
from gpushare.model.options import MemoryUnit

T4 = Gpu(0, "GPU-a", "Tesla T4", 15079, minor=3, pci="00000000:00:07.0", numa=1)


def machine(*gpus: Gpu, unreadable: dict[int, str] | None = None) -> Inventory:
    return Inventory("535.104.05", "12.2", gpus, unreadable=unreadable or {})


@pytest.mark.parametrize(
    ("mib", "gib"), [(15079, 14), (16130, 15), (22919, 22), (12196, 11), (143771, 140), (1024, 1), (1023, 0)]
)
def test_gib_are_rounded_down_and_mib_are_mib(mib: int, gib: int) -> None:
    assert units_of(mib, MemoryUnit.GIB) == gib
    assert units_of(mib, MemoryUnit.MIB) == mib


def test_a_gpu_is_offered_with_all_properties_of_the_driver() -> None:
    found = shared_gpus(machine(T4))
    assert found.cards == (Card(0, 14, "GPU-a", "Tesla T4", 15079, 1, 3, "00000000:00:07.0"),)
    assert (found.excluded, found.unlisted, found.notices, found.unschedulable) == ((), (), (), "")


def test_the_links_of_a_gpu_name_the_others_by_index() -> None:
    gpus = tuple(replace(T4, index=index, uuid=f"GPU-{index}") for index in range(4))
    links = {(0, 1): Link.NVLINK, (0, 3): Link.SYSTEM, (1, 3): Link.SWITCH}
    found = shared_gpus(replace(machine(*gpus), links=links))
    assert [card.links for card in found.cards] == ["-v-s", "v--p", "", "sp"]


def test_gpus_of_different_size_keep_their_own_and_come_in_index_order() -> None:
    big = Gpu(1, "GPU-b", "Tesla P40", 22919)
    found = shared_gpus(machine(big, T4), MemoryUnit.MIB)
    assert [(card.index, card.units) for card in found.cards] == [(0, 15079), (1, 22919)]


def test_a_gpu_in_mig_mode_is_excluded_with_a_reason() -> None:
    found = shared_gpus(machine(T4, Gpu(1, "GPU-b", "NVIDIA A100-SXM4-40GB", 40536, mig=True)))
    assert [card.index for card in found.cards] == [0]
    mig = "it is in MIG mode, which partitions it already"
    assert found.notices == (f"GPU 1 (NVIDIA A100-SXM4-40GB) is not shared: {mig}",)


def test_an_unlisted_model_is_shared_with_a_notice() -> None:
    titan = Gpu(0, "GPU-x", "NVIDIA TITAN Xp", 12196)
    found = shared_gpus(machine(titan, replace(titan, index=1, uuid="GPU-y")))
    assert [card.units for card in found.cards] == [11, 11]
    assert found.unlisted == ("NVIDIA TITAN Xp",)
    assert found.notices == ("NVIDIA TITAN Xp is not a data-centre GPU; it is shared nevertheless",)


def test_an_unlisted_model_is_left_out_by_name_where_that_is_asked_for() -> None:
    found = shared_gpus(machine(T4, Gpu(1, "GPU-x", "NVIDIA TITAN Xp", 12196)), refuse_unlisted=True)
    reason = "it is not a data-centre GPU, and --supported-models-only is set"
    assert ([card.index for card in found.cards], found.unlisted) == ([0], ())
    assert found.excluded == (ExcludedGpu(1, "NVIDIA TITAN Xp", reason),)


def test_a_gpu_that_no_program_may_use_is_left_out() -> None:
    found = shared_gpus(machine(replace(T4, compute_mode="Prohibited")))
    assert found.cards == ()
    assert found.excluded[0].reason == (
        "its compute mode Prohibited lets no program use it; run nvidia-smi -i 0 -c DEFAULT"
    )


def test_a_gpu_for_one_process_at_a_time_is_shared_with_a_notice() -> None:
    found = shared_gpus(machine(replace(T4, compute_mode="Exclusive_Process")))
    assert [card.units for card in found.cards] == [14]
    text = "GPU 0 (Tesla T4) is in compute mode Exclusive_Process, in which pods share it through MPS only"
    way_out = "if the node's mode is not mps, run nvidia-smi -i 0 -c DEFAULT"
    assert found.notices == (f"{text}; {way_out}",)
    assert shared_gpus(machine(replace(T4, compute_mode="Default"))).notices == ()


def test_a_gpu_that_the_driver_cannot_describe_is_left_out_with_its_reason() -> None:
    found = shared_gpus(machine(T4, unreadable={1: "GPU is lost"}))
    assert found.notices == ("GPU 1 is not shared: GPU is lost",)


def test_a_gpu_smaller_than_a_unit_is_left_out_and_never_offered_as_0() -> None:
    small = replace(T4, mib=1023)
    found = shared_gpus(machine(small))
    assert found.cards == ()
    assert found.excluded[0].reason == (
        "its 1023 MiB are less than one unit of 1 GiB; --memory-unit=MiB would show it"
    )
    assert [card.units for card in shared_gpus(machine(small), MemoryUnit.MIB).cards] == [1023]


def test_no_unit_would_show_a_gpu_without_memory() -> None:
    assert shared_gpus(machine(replace(T4, mib=0))).excluded[0].reason == (
        "its 0 MiB are less than one unit of 1 GiB"
    )


def test_cordoned_and_unhealthy_gpus_are_there_and_take_nothing() -> None:
    gpus = [replace(T4, index=index, uuid=f"GPU-{index}") for index in range(4)]
    found = shared_gpus(machine(*gpus), cordoned={0}, unhealthy={"GPU-2": "XID 95"})
    assert [card.healthy for card in found.cards] == [False, True, False, True]
    assert [card.fault for card in found.cards] == ["", "", "XID 95", ""]
    assert found.unschedulable == "0,2"


BEFORE = (Card(0, 15, "GPU-a", "Tesla T4", 15360), Card(1, 14, "GPU-b", "Tesla T4", 15079))


def test_the_same_gpus_are_no_change_with_any_health() -> None:
    assert changes(BEFORE, tuple(replace(card, healthy=False, fault="XID 95") for card in BEFORE)) == ()


def test_a_driver_upgrade_that_changes_the_size_is_reported_with_both_sizes() -> None:
    after = (replace(BEFORE[0], units=14, mib=15109), BEFORE[1])
    assert changes(BEFORE, after) == ("GPU 0 (Tesla T4) has 14 units instead of 15 (15360 → 15109 MiB)",)


def test_another_unit_is_reported_without_a_change_of_size() -> None:
    assert changes(BEFORE[:1], (replace(BEFORE[0], units=15360),)) == (
        "GPU 0 (Tesla T4) has 15360 units instead of 15",
    )


def test_added_removed_and_moved_gpus_are_reported() -> None:
    after = (replace(BEFORE[1], index=0), Card(1, 22, "GPU-c", "Tesla P40", 22919))
    assert changes(BEFORE, after) == (
        "GPU 0 (Tesla T4) is gone",
        "GPU 0 (Tesla T4) was GPU 1",
        "GPU 1 (Tesla P40) has appeared with 22 units",
    )


def test_gpus_without_a_uuid_are_known_by_their_index() -> None:
    assert changes((Card(0, 14),), (Card(0, 15),)) == ("GPU 0 has 15 units instead of 14",)


GB10 = Gpu(0, "GPU-spark", "NVIDIA GB10", 0, unified=True)


def declared(*gpus: Gpu, mib: int | None = None, unit: MemoryUnit = MemoryUnit.GIB) -> SharedGpus:
    return shared_gpus(with_declared_memory(machine(*gpus), mib), unit)


def test_without_a_declared_size_it_is_named_with_its_model_and_the_remedy() -> None:
    (notice,) = declared(GB10).notices
    assert notice == (
        "GPU 0 (NVIDIA GB10) is not shared: it shares the memory of its host, so the driver reports no size "
        "and no use of its memory; to share it, declare how much of that memory pods may allocate (flag "
        "--unified-memory-mib, unifiedMemoryMib in a stack)"
    )


@pytest.mark.parametrize(("unit", "units"), [(MemoryUnit.GIB, 64), (MemoryUnit.MIB, 65536)])
def test_a_declared_size_is_shared(unit: MemoryUnit, units: int) -> None:
    shared = declared(GB10, mib=65536, unit=unit)
    assert [(card.uuid, card.mib, card.units) for card in shared.cards] == [("GPU-spark", 65536, units)]
    assert (
        "GPU 0 (NVIDIA GB10): it shares the memory of its host, of which pods may allocate 65536 MiB, as "
        in (" ".join(shared.notices))
    )


def test_a_declared_size_is_less_than_the_memory_of_the_host() -> None:
    spark = replace(GB10, host_mib=124_610)
    (notice,) = declared(spark, mib=124_610).notices
    assert (
        "which has 124610 MiB, and the declared 124610 MiB leave nothing for the host: declare less" in notice
    )
    assert [card.mib for card in declared(spark, mib=124_609).cards] == [124_609]


def test_a_declared_size_is_not_that_of_a_gpu_with_memory() -> None:
    assert [card.mib for card in declared(GB10, replace(T4, index=1), mib=65536).cards] == [65536, 15079]


def test_a_declared_size_of_less_than_a_unit_is_refused_as_for_other_gpus() -> None:
    (notice,) = declared(GB10, mib=1000).notices
    assert notice.endswith("its 1000 MiB are less than one unit of 1 GiB; --memory-unit=MiB would show it")
