"""Arms, statistics and page of the model benchmark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.models.arms import ARMS, SHORTEST_S, run_s, schedule, selected, window_s
from tests.bench.models.report import Conditions, page
from tests.bench.models.results import Run, Server, Window, cost, kept, measured, quantile, summaries
from tests.bench.models.serving import Served

NAMES = [arm.name for arm in ARMS]
CONDITIONS = Conditions(
    "`make`, commit abc, 2026-11-30: 16 x CPU, load 0.1",
    gpu="NVIDIA H100",
    driver="580.1",
    cuda="13.0",
    torch="2.11.0",
    model="qwen3-4b",
    parameters=4_022_272_000,
    slots=8,
    seed=1,
)


def run(arm: str, *rates: float, number: int = 0) -> Run:
    return Run(arm, number, tuple(Server(rate, (0.1, 0.2)) for rate in rates))


def rows(text: str, first: str) -> list[list[str]]:
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return [cells for cells in found if cells[0] == first]


# --- arms -----------------------------------------------------------------------------------------


def test_the_arms_are_those_of_the_question() -> None:
    """Alone, time-slicing, a memory limit, shares of 50/50 and 25/75, MPS, MPS with shares."""
    two = [arm for arm in ARMS if arm.servers == 2]
    assert {arm.shares for arm in two if not arm.mps} == {(), (50, 50), (25, 75)}
    assert {arm.shares for arm in two if arm.mps} == {(), (50, 50), (25, 75)}
    assert [arm.name for arm in ARMS if arm.servers == 1 and not arm.limited] == ["dedicated"]


def test_an_arm_differs_from_the_one_without_the_library_by_the_library_only() -> None:
    by_name = {arm.name: arm for arm in ARMS}
    pairs = [(arm, by_name[arm.without]) for arm in ARMS if arm.without]
    assert len(pairs) == 3
    for ours, plain in pairs:
        assert (ours.limited, plain.limited) == (True, False)
        assert ours[2:3] + ours[4:6] == plain[2:3] + plain[4:6]


def test_only_launch_rates_need_a_long_time_to_settle() -> None:
    assert {arm.name for arm in ARMS if arm.settle_s > 5} == {"limit, 50/50", "limit, 25/75"}


def test_every_other_round_runs_backwards() -> None:
    order = [(number, arm.name) for number, arm in schedule(ARMS[:3], 3)]
    assert order == [(0, n) for n in NAMES[:3]] + [(1, n) for n in NAMES[2::-1]] + [(2, n) for n in NAMES[:3]]


def test_unknown_arms_are_refused_with_the_known_ones() -> None:
    assert [arm.name for arm in selected(["MPS", "limit"])] == ["limit", "MPS"]
    assert selected([]) == ARMS
    with pytest.raises(
        ValueError, match=r"no arm is named 'fast': use one of dedicated; .*MPS, limit, 25/75"
    ):
        selected(["MPS", "fast"])


@given(st.floats(1, 3000), st.integers(1, 4), st.floats(1, 60))
def test_no_run_begins_that_does_not_fit_into_its_time(minutes_s: float, rounds: int, start_s: float) -> None:
    left_s, plan = minutes_s, [arm for _, arm in schedule(ARMS, rounds)]
    for done, arm in enumerate(plan):
        seconds = window_s(left_s, plan[done:], start_s)
        if seconds is not None:
            assert seconds >= SHORTEST_S
            left_s -= run_s(arm, start_s, seconds)
    assert left_s > -0.001


def test_twelve_minutes_are_enough_for_two_rounds() -> None:
    plan = [arm for _, arm in schedule(ARMS, 2)]
    seconds = window_s(12 * 60 - 30, plan, 15)
    assert seconds is not None
    assert seconds >= 10


# --- results --------------------------------------------------------------------------------------


def test_tokens_and_first_tokens_within_the_window_count() -> None:
    served = Served(
        firsts=[(0, 9.9), (9, 10.5), (19, 20)],
        tokens=[(9.9, 1), (10.5, 1), (11, 8), (19.9, 8), (20, 8)],
    )
    found = measured(served, Window(10, 20))
    assert found == Server(1.7, (1.5,))


def test_a_server_without_tokens_is_no_result() -> None:
    with pytest.raises(ValueError, match="0 tokens and 0 first tokens in 10 s"):
        measured(Served(), Window(10, 20))


def test_quantiles_are_values_of_the_list() -> None:
    assert quantile([5, 1, 3], 0.5) == 3
    assert quantile(list(range(1, 101)), 0.99) == 99
    assert quantile([7], 0.99) == 7


def test_rounds_give_medians_of_each_server_and_of_all() -> None:
    runs = [run("limit", 10, 30), run("limit", 20, 40, number=1), run("limit", 30, 41, number=2)]
    (found,) = summaries(runs).values()
    assert (found.total, found.totals, found.rates) == (60, (40, 60, 71), (20, 40))
    assert found.parts == pytest.approx((33.33, 66.67), abs=0.01)
    assert found.firsts_s == ((0.1, 0.2) * 3,) * 2


def test_arms_are_compared_with_dedicated_and_with_their_twin() -> None:
    found = summaries([run("dedicated", 200), run("time-slicing", 80, 80), run("limit", 79, 79)])
    assert kept(found, "limit") == pytest.approx(79)
    assert cost(found, found["limit"].arm) == pytest.approx(1.25)
    assert cost(found, found["time-slicing"].arm) is None
    assert kept(summaries([run("limit", 1, 1)]), "limit") is None
    assert cost(summaries([run("limit", 1, 1)]), found["limit"].arm) is None


# --- page -----------------------------------------------------------------------------------------


def test_the_page_names_its_conditions() -> None:
    text = page(CONDITIONS, [run("dedicated", 200)], ARMS)
    for fact in (
        "NVIDIA H100, driver 580.1, CUDA 13.0, PyTorch 2.11.0",
        "commit abc, 2026-11-30",
        "load 0.1",
    ):
        assert fact in text
    assert "qwen3-4b with random weights (4.0 billion parameters), closed loop of 8 clients" in text


def test_a_row_has_the_figures_of_an_arm() -> None:
    runs = [run("dedicated", 200), run("limit, 25/75", 40, 120)]
    assert rows(page(CONDITIONS, runs, ARMS), "limit, 25/75") == [
        [
            "limit, 25/75",
            "160.0",
            "160.0",
            "80.0 %",
            "25.0 % and 75.0 %",
            "100 ms and 100 ms",
            "200 ms and 200 ms",
            "2 and 2",
        ]
    ]


def test_an_arm_without_results_says_why() -> None:
    text = page(
        CONDITIONS, [Run("MPS", 0, failure="no\n`nvidia-cuda-mps-control` | x")], selected(["MPS", "limit"])
    )
    assert "| MPS | failed: no `nvidia-cuda-mps-control` \\| x |" in text
    assert rows(text, "limit")[0][1] == "not run: no time was left"
    assert rows(text, "dedicated") == []


def test_an_arm_that_failed_in_a_later_round_shows_both() -> None:
    text = page(CONDITIONS, [run("MPS", 10, 10), Run("MPS", 1, failure="broken")], ARMS)
    assert [cells[1] for cells in rows(text, "MPS")] == ["20.0", "failed: broken"]


@pytest.mark.parametrize(("rate", "met"), [(99, "yes"), (98.9, "no"), (120, "yes")])
def test_a_goal_is_one_percent_of_the_arm_without_our_library(rate: float, met: str) -> None:
    runs = [run("time-slicing", 50, 50), run("limit", rate / 2, rate / 2)]
    (row,) = rows(page(CONDITIONS, runs, ARMS), "limit, compared with time-slicing")
    assert row[1].startswith(f"{rate - 100:+.2f} % tokens/s; a single round, so the noise is unknown")
    assert row[2:4] == ["at most 1 % fewer", met]


def test_a_cost_has_the_noise_of_the_rounds_beside_it() -> None:
    runs = [
        run(name, 50, 50 + number, number=number) for name in ("time-slicing", "limit") for number in (0, 1)
    ]
    (row,) = rows(page(CONDITIONS, runs, ARMS), "limit, compared with time-slicing")
    assert row[1] == "+0.00 % tokens/s; rounds of one arm differ by up to 1.00 %"


@pytest.mark.parametrize(("rate", "met"), [(88, "yes"), (87.9, "no")])
def test_a_goal_is_88_percent_in_the_best_of_our_arms(rate: float, met: str) -> None:
    runs = [run("dedicated", 100), run("dedicated, limit", 99), run("time-slicing", 95)]
    runs += [run("limit", rate / 2, rate / 2), run("MPS, limit, 50/50", 40, 40)]
    (row,) = rows(page(CONDITIONS, runs, ARMS), "best arm: limit")
    assert row[1:4] == [f"{rate:.1f} %", "88 % of dedicated", met]


@pytest.mark.parametrize(("small", "met"), [(30, "yes"), (30.2, "no"), (19.9, "no")])
def test_a_goal_is_five_points_of_a_share(small: float, met: str) -> None:
    text = page(CONDITIONS, [run("limit, 25/75", small, 100 - small)], ARMS)
    (row,) = rows(text, "parts of the work, limit, 25/75")
    assert row[1:4] == [f"{abs(small - 25):.1f} points off", "within 5 points", met]


def test_shares_of_arms_without_our_library_have_no_goal() -> None:
    assert rows(page(CONDITIONS, [run("MPS, 50/50", 1, 2)], ARMS), "parts of the work, MPS, 50/50") == []
