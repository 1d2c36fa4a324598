"""The sums of ``kubectl gpushare report``."""

from collections.abc import Sequence
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from gpushare.cli.report.accounting import (
    UNKNOWN,
    Account,
    Gap,
    GpuKey,
    GpuSums,
    Share,
    UsageFacts,
    WorkloadHours,
    account,
)
from gpushare.overview.hours import Rounded, Span, apportioned
from gpushare.overview.objects import PodOwner

GIB = 2**30
GPUS = [GpuKey("n", str(index), f"GPU-{index}") for index in range(2)]
HOUR = 60
WEB = PodOwner("Deployment", "web")


def sums(gib: int, used: int = 0, points: int = HOUR) -> GpuSums:
    return GpuSums(Fraction(gib * GIB * points), Fraction(used * GIB * points), points)


def share(pod: str, gib: int, used: int = 0, *, gpu: GpuKey = GPUS[0], busy: str = "0") -> Share:
    return Share(
        "ml",
        pod,
        gpu,
        Fraction(gib * GIB * HOUR),
        Fraction(used * GIB * HOUR),
        Fraction(busy) * HOUR,
    )


def accounted(gpus: dict[GpuKey, GpuSums], shares: Sequence[Share], *, whole: bool = True) -> Account:
    facts = UsageFacts(gpus, list(shares), {("ml", "a"): WEB, ("ml", "b"): WEB})
    return account(facts, Span(0, 60, HOUR), whole=whole)


def test_a_quarter_of_a_gpu_for_an_hour() -> None:
    found = accounted({GPUS[0]: sums(16, 5)}, [share("a", 4, 3, busy="0.5")])
    assert found.rows == (WorkloadHours("ml", WEB, Rounded(250, 500, 4000, 3000)),)
    assert found.remainder == Rounded(750, 0, 12_000, 2000)
    assert found.total == Rounded(1000, 500, 16_000, 5000)


def test_pods_of_one_workload_are_one_row_and_others_are_unknown() -> None:
    found = accounted({GPUS[0]: sums(16)}, [share("a", 4), share("b", 4), share("gone", 2)])
    assert [(row.owner, row.hours.allocated_gib) for row in found.rows] == [(UNKNOWN, 2000), (WEB, 8000)]


def test_a_namespace_has_no_remainder() -> None:
    found = accounted({GPUS[0]: sums(16)}, [share("a", 4)], whole=False)
    assert (found.remainder, found.total) == (None, Rounded(250, 0, 4000, 0))


def test_a_namespace_without_containers_has_zero() -> None:
    assert accounted({GPUS[0]: sums(16)}, [], whole=False).total == Rounded(0, 0, 0, 0)


def test_time_without_data_is_a_gap_and_counts_for_no_one() -> None:
    found = accounted({GPUS[0]: sums(16), GPUS[1]: sums(16, points=45)}, [])
    assert found.gaps == (Gap(GPUS[1], Fraction(1, 4)),)
    assert found.total.allocated_gpu == 1750


fractions = st.fractions(min_value=0, max_value=10**6, max_denominator=10**9)


@given(st.lists(fractions | st.fractions(-5, 5), max_size=20))
def test_rounded_amounts_add_up_to_the_rounded_sum(amounts: list[Fraction]) -> None:
    found = apportioned(amounts)
    assert sum(found) == round(sum(amounts, Fraction(0)) * 1000)
    assert all(abs(each - amount * 1000) < 1 for each, amount in zip(found, amounts, strict=True))


gpus = st.builds(
    lambda size, used, points: GpuSums(Fraction(size * points), Fraction(used * points), points),
    *(st.integers(1, 2**40), st.integers(0, 2**40), st.integers(1, HOUR)),
)
shares = st.builds(
    Share,
    *(st.sampled_from("xy"), st.sampled_from("abc"), st.sampled_from(GPUS)),
    *(st.integers(0, 2**46).map(Fraction), st.integers(0, 2**46).map(Fraction), st.fractions(0, HOUR)),
)


@given(gpus, gpus, st.lists(shares, max_size=8))
def test_rows_and_remainder_are_the_gpus_of_the_cluster(
    first: GpuSums, second: GpuSums, held: list[Share]
) -> None:
    found = accounted(dict(zip(GPUS, (first, second), strict=True)), held)
    assert found.remainder is not None
    parts = [*(row.hours for row in found.rows), found.remainder]
    assert Rounded(*map(sum, zip(*parts, strict=True))) == found.total
    minutes = first.points + second.points
    assert found.total.allocated_gpu == round(Fraction(minutes * 1000, 60))
    memory, used = first.memory + second.memory, first.used + second.used
    assert found.total.allocated_gib == round(memory * 1000 / GIB / 60)
    assert found.total.used_gib == round(used * 1000 / GIB / 60)
    assert found.total.used_gpu == round(sum((each.utilization for each in held), Fraction(0)) * 1000 / 60)
