"""The rule of ``kubectl gpushare recommend``."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.cli.recommend.sizing import (
    Basis,
    Comparison,
    Observed,
    recommendations,
    suggested_units,
)
from gpushare.overview.memory_units import NodeUnit
from gpushare.overview.objects import PodOwner

MIB = 2**20
WEB = PodOwner("Deployment", "web")


def container(units: int = 8, **numbers: int) -> Observed:
    """A container of a T4: 14 units of 1077 MiB."""
    return Observed("ml", WEB, "main", units, granted=15079 * units // 14 * MIB, **numbers)


def test_the_suggestion_is_the_peak_with_the_margin_in_whole_units() -> None:
    # 3000 MiB + 20 % = 3600 MiB: 4 units of 1077 MiB.
    assert suggested_units(container(peak=3000 * MIB), 20) == 4
    assert suggested_units(container(peak=3000 * MIB), 0) == 3


def test_the_larger_of_counted_and_driver_usage_counts() -> None:
    assert suggested_units(container(peak=3000 * MIB, used=4000 * MIB), 0) == 4


def test_after_refusals_the_suggestion_is_above_the_limit() -> None:
    refused = container(4, peak=1000 * MIB, limit=4308 * MIB, refusals=1)
    assert suggested_units(refused, 20) == 5
    assert suggested_units(refused, 0) == 5


def v100(units: int, needed_mib: int) -> Observed:
    """A container of a V100, 15 units of 1075 MiB, whose request was refused."""
    granted, gpu = 16130 * units // 15 * MIB, 16130 * MIB
    seen = Observed("ml", WEB, "main", units, granted=granted, limit=granted, peak=121 * MIB, gpu=gpu)
    return replace(seen, refusals=2, needed=needed_mib * MIB)


@pytest.mark.parametrize(
    ("needed_mib", "units"), [(6144 + 121, 7), (14336 + 121, 15), (16130, 15), (4302, 5)]
)
def test_a_refused_request_is_admitted_by_the_first_suggestion(needed_mib: int, units: int) -> None:
    found = suggested_units(v100(4, needed_mib), 20)
    assert found == units
    assert 16130 * found // 15 >= needed_mib


def test_the_basis_is_the_refused_request_where_it_needs_the_most() -> None:
    (found,) = recommendations([v100(4, 6265), container(4, peak=MIB)], 20, Basis.SINCE_START)
    assert (found.basis, found.needed, found.suggestion) == (Basis.REFUSED, 6265 * MIB, 7)
    (found,) = recommendations([replace(v100(4, 6265), peak=7000 * MIB)], 20, Basis.SINCE_START)
    assert found.basis is Basis.SINCE_START


def test_the_room_above_a_peak_ends_at_the_size_of_the_gpu() -> None:
    nearly_all = replace(container(14, peak=15000 * MIB), gpu=15079 * MIB)
    assert suggested_units(nearly_all, 20) == 14
    assert suggested_units(replace(nearly_all, gpu=None), 20) == 17


def test_a_container_that_used_nothing_keeps_one_unit() -> None:
    assert suggested_units(container(peak=0), 20) == 1


def test_a_present_usage_is_not_a_peak() -> None:
    (found,) = recommendations([container(used=100 * MIB)], 20, Basis.SINCE_START)
    assert (found.suggestion, found.basis, found.verdict) == (None, Basis.NOW, Comparison.NONE)


def test_without_series_there_is_no_data() -> None:
    silent = Observed("ml", WEB, "main", 8)
    (found,) = recommendations([silent], 20, Basis.SINCE_START)
    assert (found.suggestion, found.basis, found.unit) == (None, Basis.NO_DATA, NodeUnit.UNKNOWN)


def test_replicas_get_the_largest_suggestion() -> None:
    group = [container(peak=peak * MIB, refusals=0) for peak in (1000, 5000, 2000)]
    (found,) = recommendations(group, 20, Basis.SINCE_START)
    assert (found.pods, found.suggestion, found.verdict) == (3, 6, Comparison.LOWER)


def test_the_suggestion_holds_the_usage_of_a_replica_without_a_peak() -> None:
    group = [container(peak=1000 * MIB), container(used=5000 * MIB)]
    (found,) = recommendations(group, 20, Basis.SINCE_START)
    assert found.suggestion == 6


def test_replicas_with_different_requests_are_apart() -> None:
    found = recommendations([container(4, peak=0), container(8, peak=0)], 20, Basis.SINCE_START)
    assert [each.request for each in found] == [4, 8]


def test_units_of_several_gpus_are_summed() -> None:
    spread = Observed("ml", WEB, "main", 4, gpus=2, granted=4308 * MIB, peak=3000 * MIB)
    (found,) = recommendations([spread], 0, Basis.SINCE_START)
    assert (found.request, found.suggestion) == (8, 6)


def test_units_of_a_mib_are_recognized() -> None:
    small = Observed("ml", WEB, "main", 4096, granted=4096 * MIB, peak=1000 * MIB)
    assert (small.unit, suggested_units(small, 20)) == (NodeUnit.MIB, 1200)


@given(
    st.integers(1, 80),
    st.integers(1, 200_000),
    st.integers(0, 10**11),
    st.integers(0, 400),
    st.integers(0, 3),
)
def test_the_suggestion_holds_the_need_and_one_unit_less_does_not(
    units: int, card_mib: int, peak: int, margin: int, refusals: int
) -> None:
    granted = units * card_mib * MIB // 80
    seen = Observed("ml", WEB, "main", units, granted=granted, limit=granted, peak=peak, refusals=refusals)
    found = suggested_units(seen, margin)
    if not granted:
        assert found is None
        return
    need = max(peak, granted if refusals else 0) * (100 + margin)
    assert found is not None
    assert found * granted * 100 >= need * units
    assert found == 1 or (found - 1) * granted * 100 < need * units + 100 * units or refusals
    assert not refusals or found > units
