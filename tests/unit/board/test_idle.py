"""Idle memory, added up from report to report; gaps are time without data."""

import pytest

from gpushare.board.idle import Idle, Sum, observed, unknown_s
from gpushare.board.usage import Live
from tests.support.builders.boards import GIB, Cluster

OWNERS = {("a", "p"): "job/p"}
WORKLOAD = ("a", "job/p")


def round_at(at: float, used_gib: float | None, live: Live | None = None) -> Live:
    """A round in which a container with 10 GiB uses so many; None: its exporter does not answer."""
    made = Cluster()
    made.add_node("n", "T4", [14])
    if used_gib is None:
        made.exporters["n"] = None
    else:
        made.add_pod("a/p", "n", 0, 10, used_gib)
    return made.live(at, live)


def after(*rounds: tuple[float, float | None]) -> Idle:
    idle, live = Idle(), Live()
    for at, used in rounds:
        live = round_at(at, used, live)
        idle = observed(idle, live, OWNERS)
    return idle


def test_idle_memory_is_the_mean_between_two_reports() -> None:
    assert after((0, 4), (10, 6)).sums == {WORKLOAD: Sum(idle=10 * 5 * GIB)}


def test_a_container_that_uses_more_than_its_allocation_is_not_idle() -> None:
    assert after((0, 12), (10, 12)).sums == {WORKLOAD: Sum(idle=0)}


def test_a_round_counts_once() -> None:
    live = round_at(10, 0, round_at(0, 0))
    once = observed(observed(Idle(), round_at(0, 0), OWNERS), live, OWNERS)
    assert observed(once, live, OWNERS) == once


def test_a_long_gap_is_neither_idle_nor_used() -> None:
    idle = after((0, 0), (10, 0), (20, None), (500, None), (510, 0))
    assert idle.sums == {WORKLOAD: Sum(idle=10 * 10 * GIB, unknown_s=500)}


def test_a_short_gap_is_bridged() -> None:
    assert after((0, 0), (10, None), (20, 0)).sums == {WORKLOAD: Sum(idle=20 * 10 * GIB)}


def test_a_gap_that_has_not_ended_is_counted_too() -> None:
    assert unknown_s(after((0, 0), (10, None)), 300, OWNERS) == {WORKLOAD: 300}
    assert unknown_s(after((0, 0), (10, None)), 20, OWNERS) == {WORKLOAD: 0}


@pytest.mark.parametrize("at", [100.0, 1000.0])
def test_the_sum_of_a_workload_stays_when_its_pods_are_gone(at: float) -> None:
    idle = observed(after((0, 0), (10, 0)), round_at(at, 0), {})
    assert idle.sums == {WORKLOAD: Sum(idle=10 * 10 * GIB)}
    assert idle.last == {}
    assert unknown_s(idle, at, {}) == {WORKLOAD: 0}


def test_a_clock_that_goes_back_subtracts_nothing() -> None:
    assert after((100, 0), (50, 0)).sums == {WORKLOAD: Sum(idle=0)}
