from dataclasses import replace

import pytest

from gpushare.deviceplugin.core.allocations import Allocation, Allocations
from gpushare.deviceplugin.core.limits import is_limited, limit_of
from gpushare.isolation.limits import CardLimit, parse
from gpushare.model.cards import Card
from gpushare.model.demand import Demand, demand_of
from gpushare.model.modes import Mode
from tests.support.builders.gpu_pods import allocations
from tests.support.builders.scheduling import demand, main, sound

V100 = Card(1, 15, "GPU-1", mib=16130)
T4 = Card(0, 14, "GPU-0", mib=15079)
NODE = Allocations("node-a", (T4, V100), Mode.CGPU)


def allocation(*cards: tuple[str, int]) -> Allocation:
    return Allocation("uid", "main", "default/a", cards or (("GPU-1", 4),), "x")


def limits(node: Allocations, of: Allocation, asks: Demand | None = None) -> tuple[CardLimit, ...]:
    return parse(limit_of(node, of, asks))


@pytest.mark.parametrize(
    ("mode", "limited"),
    [(Mode.SHARE, False), (Mode.CGPU, True), (Mode.CORE_MEM, True), (Mode.MPS, True)],
)
def test_the_mode_determines_whether_containers_are_limited(mode: Mode, limited: bool) -> None:  # noqa: FBT001
    assert is_limited(allocations(14, mode=mode)) is limited
    assert not is_limited(replace(allocations(14, mode=mode), isolated=False))


def test_a_limit_is_the_share_of_the_gpu_in_whole_mib() -> None:
    (found,) = limits(NODE, allocation())
    assert (found.uuid, found.limit_mib, found.context_mib) == ("GPU-1", 4301, 121)
    (found,) = limits(NODE, allocation(("GPU-0", 4)))
    assert found.limit_mib == 4308


H200 = Card(2, 140, "GPU-2", "NVIDIA H200", mib=143360)


@pytest.mark.parametrize(
    ("mode", "units", "measured", "estimate"),
    [
        (Mode.CGPU, 4, {}, 518),
        (Mode.CORE_MEM, 4, {}, 518),
        (Mode.CGPU, 4, {"GPU-2": 300}, 300),
        (Mode.CGPU, 4, {"GPU-1": 300}, 518),
        (Mode.CGPU, 1, {"GPU-2": 1000}, 512),
        (Mode.MPS, 4, {"GPU-2": 300}, 121),
    ],
)
def test_a_context_is_as_large_as_measured_on_its_gpu_or_as_on_its_model(
    mode: Mode, units: int, measured: dict[str, int], estimate: int
) -> None:
    node = Allocations("node-a", (H200,), mode, context_mib=measured)
    (found,) = limits(node, allocation(("GPU-2", units)))
    assert found.context_mib == estimate


def test_a_container_with_little_memory_can_have_a_context_nevertheless() -> None:
    """121 MiB if that fits; else no context fits."""
    small = replace(H200, units=143360)
    node = Allocations("node-a", (small,), Mode.CGPU, context_mib={"GPU-2": 1000})
    assert [limits(node, allocation(("GPU-2", mib)))[0].context_mib for mib in (100, 200, 300)] == [
        121,
        121,
        150,
    ]


def test_each_gpu_has_a_limit_of_its_own() -> None:
    found = limits(NODE, allocation(("GPU-1", 15), ("GPU-0", 7)))
    assert {each.uuid: each.limit_mib for each in found} == {"GPU-0": 7539, "GPU-1": 16130}


def test_a_gpu_smaller_than_the_allocation_is_allowed_as_a_whole() -> None:
    small = replace(NODE, cards=(replace(V100, units=3, mib=3500),))
    (found,) = limits(small, allocation())
    assert (found.units, found.limit_mib) == (3, 3500)


def test_a_missing_gpu_has_no_limit() -> None:
    assert limits(NODE, allocation(("GPU-9", 4))) == ()


def test_compute_is_the_containers_own_and_only_where_the_mode_divides_it() -> None:
    asks = sound(demand_of([main(4, 30), main(2, 20, name="other")]))
    assert limits(replace(NODE, mode=Mode.CORE_MEM), allocation(), asks)[0].core_percent == 30
    assert limits(NODE, allocation(), asks)[0].core_percent == 0


def test_compute_of_several_gpus_is_divided_evenly() -> None:
    node = replace(NODE, mode=Mode.CORE_MEM)
    found = limits(node, allocation(("GPU-0", 2), ("GPU-1", 2)), demand(4, core=60, cards=2))
    assert [each.core_percent for each in found] == [30, 30]
