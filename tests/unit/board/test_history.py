"""The last hour of the cluster."""

from dataclasses import replace

from gpushare.board.history import INTERVAL_S, KEPT_S, History, Point, appended, point
from gpushare.board.usage import Live
from tests.support.builders.boards import STARTED, Cluster

POINT = Point(0, 0.5, 0.25, 1, 1)


def of(made: Cluster, live: Live | None = None, *, lost: bool = False) -> Point:
    seen = made.state(live=live)
    return point(STARTED, seen.views, seen.live, lost=lost)


def one_node(used_gib: float = 7) -> Cluster:
    made = Cluster()
    made.add_node("n", "T4", [14])
    made.add_pod("a/p", "n", 0, 7)
    made.add_usage("n", 0, used_gib, 0)
    return made


def test_a_point_has_the_allocated_and_the_used_part_of_the_memory() -> None:
    assert of(one_node(3.5)) == Point(STARTED, allocated=0.5, used=0.25, measured=1, sharing=1)


def test_what_is_not_known_is_none() -> None:
    assert of(one_node(), Live()) == Point(STARTED, 0.5, None, 0, 1)
    assert of(one_node(), lost=True).allocated is None
    assert of(Cluster()) == Point(STARTED, None, None, 0, 0)


def test_units_of_different_sizes_are_added_by_their_size() -> None:
    made = one_node()
    made.add_node("m", "T4", [14336])
    made.nodes[1]["metadata"]["annotations"]["gpushare.io/cards"] = '[{"index":0,"units":14336,"mib":14336}]'
    assert of(made).allocated == 0.25


def test_a_point_every_interval() -> None:
    early = replace(POINT, at=INTERVAL_S - 1)
    assert appended((POINT,), early) == (POINT,)
    late = replace(POINT, at=INTERVAL_S)
    assert appended((POINT,), late) == (POINT, late)


def test_points_of_more_than_an_hour_ago_are_dropped() -> None:
    history: History = ()
    for number in range(1000):
        history = appended(history, replace(POINT, at=number * INTERVAL_S))
    assert len(history) == KEPT_S / INTERVAL_S + 1
    assert history[-1].at - history[0].at == KEPT_S


def test_a_clock_that_goes_back_begins_a_new_history() -> None:
    later = replace(POINT, at=5000)
    assert appended((POINT, later), replace(POINT, at=100)) == (POINT, replace(POINT, at=100))
