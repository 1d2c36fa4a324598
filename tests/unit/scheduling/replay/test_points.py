"""The scores of nodes from their losses."""

from gpushare.scheduling.placement.replay.points import Place, points
from gpushare.scheduling.placement.replay.value import UNFIT, WORTH

GPU = 1000 * WORTH


def of(losses: dict[str, int], gpus: dict[str, int] | None = None, **more: set[str]) -> dict[str, int] | None:
    places: dict[str, Place] = {name: ((gpus or {}).get(name, 1), name) for name in losses}
    return points(list(losses), list(losses.values()), places, **more)


def test_the_node_that_loses_least_is_far_ahead() -> None:
    assert of({"a": 2 * GPU, "b": 0, "c": GPU}) == {"a": 0, "b": 10, "c": 1}


def test_of_nodes_as_good_the_first_has_it() -> None:
    assert of({"b": 0, "a": 20 * WORTH, "c": 20 * WORTH + 1}) == {"b": 2, "a": 10, "c": 1}


def test_nodes_with_fewer_gpus_are_first() -> None:
    assert of({"a": 0, "b": 0}, {"a": 8, "b": 2}) == {"a": 2, "b": 10}


def test_nodes_without_gpus_are_equal() -> None:
    assert of({"a": 0, "b": 0, "c": 0}, {"a": 0, "b": 0}) == {"a": 10, "b": 10, "c": 2}


def test_a_node_that_cannot_take_the_pod_has_no_points() -> None:
    assert of({"a": UNFIT, "b": 5 * GPU}) == {"a": 0, "b": 10}


def test_without_a_node_that_fits_there_is_no_opinion() -> None:
    assert of({"a": UNFIT}) is None
    assert of({}) is None


def test_unlisted_nodes_come_last() -> None:
    assert of({"a": 0, "b": GPU}, unlisted={"a"}) == {"a": 0, "b": 10}
    assert of({"a": 0}, unlisted={"a"}) is None


def test_a_node_that_has_gone_meanwhile_does_not_win() -> None:
    assert points(["a"], [0], {}) is None
    assert points(["a", "b"], [0, 0], {"b": (1, "b")}) == {"a": 1, "b": 10}
