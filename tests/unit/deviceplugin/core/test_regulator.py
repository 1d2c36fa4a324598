import random
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.regulator import History, LaunchSample, rate, with_history

SECOND = 1_000_000_000


@dataclass
class App:
    """A program with equal cost per token; it launches as allowed, up to its demand."""

    ns_per_token: float
    wants: float = 1.0

    def run(self, allowed: int) -> LaunchSample:
        spent = round(min(self.wants * SECOND / self.ns_per_token, allowed or SECOND))
        return LaunchSample(SECOND, round(spent * self.ns_per_token), spent)


def part(app: App, percent: int, samples: int, previous: int = 0) -> float:
    for _ in range(samples):
        previous = rate(percent, app.run(previous), previous)
    return 100 * app.run(previous).busy_ns / SECOND


def coarse_parts(percents: tuple[int, int], seconds: int, seed: int, *, history: bool = True) -> list[float]:
    """The real parts of the first of two busy programs, when NVML's are those of an H200: see the module."""
    source, app = random.Random(seed), App(10)
    rates, found = [0, 0], []
    kept: list[History | None] = [None, None]
    for _ in range(seconds):
        wanted = [app.run(each).spent for each in rates]
        work = [each / max(1, sum(wanted) * 10 / SECOND) for each in wanted]
        parts = [each * 10 / SECOND for each in work]
        found.append(100 * parts[0])
        for each, seen in enumerate(_sevenths(parts, source)):
            sample = LaunchSample(SECOND, round(seen * SECOND), round(work[each]))
            followed = with_history(sample, kept[each] if history else None)
            kept[each], rates[each] = followed, rate(percents[each], followed.total, rates[each])
    return found


def _sevenths(parts: list[float], source: random.Random) -> Iterator[float]:
    """NVML's parts: at seven moments, it sees one program or none."""
    seen = source.choices([0, 1, None], [*parts, max(0, 1 - sum(parts))], k=7)
    return (seen.count(each) / 7 for each in range(len(parts)))


@pytest.mark.parametrize("percents", [(25, 75), (10, 90), (5, 95), (25, 25), (50, 50)])
def test_coarse_samples_give_the_compute_share_too(percents: tuple[int, int]) -> None:
    runs = [coarse_parts(percents, 200, seed)[15:] for seed in range(10)]
    assert mean(map(mean, runs)) == pytest.approx(percents[0], abs=1.5)
    assert mean(map(pstdev, runs)) < 6


def test_the_mean_of_20_seconds_with_coarse_samples_is_close_to_the_compute_share() -> None:
    means = [mean(coarse_parts((25, 75), 30, seed)[10:]) for seed in range(100)]
    assert mean(means) == pytest.approx(25, abs=1.5)
    assert pstdev(means) < 4


def test_without_history_coarse_samples_give_more_than_the_compute_share() -> None:
    runs = [coarse_parts((10, 90), 200, seed, history=False)[15:] for seed in range(10)]
    assert mean(map(mean, runs)) > 13


def test_kernels_that_run_for_seconds_are_measured_by_all_their_time() -> None:
    history, previous = None, 0
    for spent in [100, 0, 0, 0] * 10:
        history = with_history(LaunchSample(SECOND, SECOND, spent), history)
        previous = rate(100, history.total, previous)
    assert previous == pytest.approx(25, rel=0.3)


def test_two_samples_of_longer_kernels_drop_the_history_and_one_does_not() -> None:
    usual, longer = LaunchSample(SECOND, SECOND // 10, 1000), LaunchSample(SECOND, SECOND // 2, 600)
    history = None
    for _ in range(10):
        history = with_history(usual, history)
    once = with_history(longer, history)
    assert once.total.elapsed_ns > 4 * SECOND
    twice = with_history(longer, once)
    assert twice.total == LaunchSample(2 * SECOND, SECOND, 1200)


def test_longer_kernels_are_limited_soon_in_spite_of_the_history() -> None:
    history, previous = None, 0
    for app in [App(10)] * 20 + [App(1000)] * 8:
        history = with_history(app.run(previous), history)
        previous = rate(25, history.total, previous)
    assert 100 * App(1000).run(previous).busy_ns / SECOND == pytest.approx(25, abs=2)


costs = st.floats(0.5, 1e6)
percents = st.integers(2, 99)


@given(percents, costs)
def test_the_first_sample_gives_the_compute_share(percent: int, cost: float) -> None:
    assert part(App(cost), percent, 1) == pytest.approx(percent, rel=0.02, abs=0.1)


@given(percents, costs, st.integers(1, 10**12))
def test_the_compute_share_is_reached_from_any_rate(percent: int, cost: float, previous: int) -> None:
    assert part(App(cost), percent, 60, previous) == pytest.approx(percent, rel=0.02, abs=0.2)


@given(percents, costs)
def test_a_container_that_used_less_can_still_use_its_full_compute_share(percent: int, cost: float) -> None:
    shy = rate(percent, App(cost, wants=percent / 200).run(0), 0)
    assert 100 * App(cost).run(shy).busy_ns / SECOND == pytest.approx(percent, rel=0.05, abs=0.1)


@pytest.mark.parametrize(
    "sample", [LaunchSample(SECOND, 0, 0), LaunchSample(SECOND, SECOND, 0), LaunchSample(0, 5, 5)]
)
def test_an_empty_sample_changes_nothing(sample: LaunchSample) -> None:
    assert rate(25, sample, 1234) == 1234
    assert rate(25, sample, 0) == 0


def test_kernels_too_short_to_be_sampled_are_not_limited_indefinitely() -> None:
    previous = 10
    for _ in range(20):
        previous = rate(25, LaunchSample(SECOND, 0, previous), previous)
    assert previous > 1_000_000


def test_longer_kernels_are_limited_soon() -> None:
    fast = rate(25, App(10).run(0), 0)
    assert part(App(1000), 25, 6, fast) == pytest.approx(25, abs=2)


samples = st.builds(LaunchSample, st.integers(1, 10**12), st.integers(0, 10**12), st.integers(1, 2**50))
rates = st.integers(1, 2**50)


@given(percents, samples, rates)
def test_a_rate_is_never_taken_away(percent: int, sample: LaunchSample, previous: int) -> None:
    assert rate(percent, sample, previous) >= 1
    assert bool(rate(percent, sample, 0)) == bool(sample.busy_ns)


@given(percents, samples, rates)
def test_one_sample_at_most_doubles_a_rate(percent: int, sample: LaunchSample, previous: int) -> None:
    assert rate(percent, sample, previous) <= 2 * previous


@given(percents, samples, rates)
def test_a_rate_rises_no_higher_than_the_gpu_has_shown(
    percent: int, sample: LaunchSample, previous: int
) -> None:
    shown_ns = max(sample.busy_ns, sample.elapsed_ns / 200) if sample.busy_ns else sample.elapsed_ns / 2
    assert rate(percent, sample, previous) <= max(previous, SECOND * sample.spent / shown_ns + 1)


@given(percents, rates, st.lists(st.integers(1, 2**50), max_size=100))
def test_samples_without_gpu_time_raise_a_rate_to_twice_the_work_at_most(
    percent: int, previous: int, spent: list[int]
) -> None:
    found = previous
    for each in spent:
        found = rate(percent, LaunchSample(SECOND, 0, each), found)
    assert found <= max(previous, 2 * max(spent, default=0))
