"""Fragmentation, against examples that were computed by hand from the paper's definition."""

import pytest

from gpushare.simulation.fragmentation import Fragmentation, typical
from gpushare.simulation.workload import NodeSpec, Shape, Workload

NODE = NodeSpec("n", 8000, 8000, 2, "T4")
HALF = Shape(1000, 0, 1, 500)
WHOLE_PAIR = Shape(4000, 0, 2, 1000)
CPU_ONLY = Shape(1000, 0, 0, 0)


def lost(free: tuple[int, ...], *pods: Shape, cpu: int = 8000, model: str = "T4") -> float:
    return Fragmentation(Workload((NODE,), pods)).of(model, cpu, free)


def test_free_units_below_the_request_are_lost() -> None:
    # 400 < 500 is lost, 600 is not.
    assert lost((400, 600), HALF) == pytest.approx(400)


def test_all_is_lost_if_no_set_of_gpus_fits() -> None:
    assert lost((1000, 900), WHOLE_PAIR) == pytest.approx(1900)
    assert lost((1000, 1000), WHOLE_PAIR) == pytest.approx(0)


def test_all_is_lost_to_pods_without_gpus_and_without_cpu() -> None:
    assert lost((1000, 600), CPU_ONLY) == pytest.approx(1600)
    assert lost((1000, 600), HALF, cpu=999) == pytest.approx(1600)


def test_all_is_lost_to_pods_of_other_models() -> None:
    other = Shape(1000, 0, 1, 500, frozenset({"P100"}))
    assert lost((1000, 600), other) == pytest.approx(1600)


def test_pods_count_by_their_weight() -> None:
    # 3/4 of the pods lose 400, 1/4 all 1000.
    assert lost((400, 600), HALF, HALF, HALF, WHOLE_PAIR) == pytest.approx(0.75 * 400 + 0.25 * 1000)


def test_typical_pods_cover_95_percent_and_their_weights_add_up_to_one() -> None:
    pods = [HALF] * 90 + [CPU_ONLY] * 6 + [WHOLE_PAIR] * 4
    assert list(typical(pods).values()) == pytest.approx([90 / 96, 6 / 96])
