import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import mean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.prices import (
    Learned,
    WorkSample,
    cost_ns,
    followed_ratio,
    is_same_work,
    with_sample,
)

SECOND = 1_000_000_000
KERNEL, PROMPT, TINY = 3, 7, 9


def learn(learned: Learned, sample: WorkSample, *, contended: bool = False) -> Learned:
    seen = with_sample(learned, sample, contended=contended)
    return followed_ratio(seen, seen.ratio, contended=contended)


@dataclass
class App:
    """A program with one kind of kernel; it launches as allowed, up to its demand."""

    ns: float
    """GPU time of a unit of work."""
    wants: float = 1.0
    learned: Learned = field(default_factory=Learned)

    def launches(self, percent: int) -> int:
        """The work in a second with that compute share."""
        price = self.learned.prices.get(KERNEL, 0)
        allowed = percent / 100 * SECOND / price if price else SECOND / self.ns
        return max(1, round(min(self.wants * SECOND / self.ns, allowed)))

    def second(self, percent: int, *, contended: bool = False) -> float:
        """Run for a second, and learn from it; returns the percentage of the GPU that was used."""
        amount = self.launches(percent)
        busy_ns = min(SECOND, amount * self.ns)
        sample = WorkSample(SECOND, round(busy_ns), {KERNEL: round(busy_ns / self.ns)})
        self.learned = learn(self.learned, sample, contended=contended)
        return 100 * busy_ns / SECOND


def coarse_parts(percents: tuple[int, int], seconds: int, seed: int) -> list[float]:
    """The real parts of the first of two busy programs, when NVML's are those of an H200: see the module."""
    source, apps, found = random.Random(seed), (App(10), App(10)), []
    for _ in range(seconds):
        wanted = [app.launches(percent) for app, percent in zip(apps, percents, strict=True)]
        work = [each / max(1, sum(wanted) * 10 / SECOND) for each in wanted]
        parts = [each * 10 / SECOND for each in work]
        found.append(100 * parts[0])
        for app, amount, seen in zip(apps, work, _sevenths(parts, source), strict=True):
            sample = WorkSample(SECOND, round(seen * SECOND), {KERNEL: round(amount)})
            app.learned = learn(app.learned, sample, contended=True)
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


# --- one kind -----------------------------------------------------------------------------------

costs = st.floats(0.001, 1e6)
percents = st.integers(2, 99)


@given(percents, costs, st.booleans())
def test_the_first_sample_gives_the_compute_share(percent: int, ns: float, contended: bool) -> None:  # noqa: FBT001
    app = App(ns)
    app.second(percent, contended=contended)
    assert app.second(percent) == pytest.approx(percent, rel=0.02, abs=0.1)


@given(percents, costs)
def test_a_container_that_used_less_can_still_use_its_full_compute_share(percent: int, ns: float) -> None:
    app = App(ns, wants=percent / 200)
    app.second(percent)
    app.wants = 1.0
    assert app.second(percent) == pytest.approx(percent, rel=0.05, abs=0.1)


@given(percents, costs, st.floats(1e-3, 1e3))
def test_the_compute_share_is_reached_from_any_price_while_others_use_the_gpu(
    percent: int, ns: float, wrong: float
) -> None:
    app = App(ns, learned=Learned({KERNEL: ns * wrong}))
    for _ in range(120):
        app.second(percent, contended=True)
    assert app.second(percent) == pytest.approx(percent, rel=0.05, abs=0.3)


def test_kernels_that_have_become_longer_are_limited_soon_while_others_use_the_gpu() -> None:
    app = App(10)
    for _ in range(20):
        app.second(25, contended=True)
    app.ns = 40
    found = [app.second(25, contended=True) for _ in range(75)]
    assert found[0] == pytest.approx(100, abs=2)
    assert found[-1] == pytest.approx(25, abs=2)


def test_two_samples_of_longer_kernels_drop_the_earlier_ones_and_one_does_not() -> None:
    usual, longer = (
        WorkSample(SECOND, SECOND / 10, {KERNEL: 1000}),
        WorkSample(SECOND, SECOND / 2, {KERNEL: 600}),
    )
    learned = Learned()
    for _ in range(10):
        learned = with_sample(learned, usual, contended=True)
    once = with_sample(learned, longer, contended=True)
    twice = with_sample(once, longer, contended=True)
    assert once.total
    assert once.total.elapsed_ns > 4 * SECOND
    assert twice.total == WorkSample(2 * SECOND, SECOND, {KERNEL: 1200})


@given(st.lists(st.floats(0.2, 5), max_size=50))
def test_without_other_programs_prices_never_rise_once_they_are_known(longer: list[float]) -> None:
    """A rate that falls while the GPU is free helps none."""
    app = App(10)
    for _ in range(12):
        app.second(25)
    for factor in longer:
        before = app.learned.prices[KERNEL]
        app.ns = 10 * factor
        app.second(25)
        assert app.learned.prices[KERNEL] <= before


def test_kernels_that_run_for_seconds_are_measured_by_all_their_time() -> None:
    learned = Learned()
    for work in [{KERNEL: 100}, {}, {}, {}] * 10:
        learned = learn(learned, WorkSample(SECOND, SECOND, work), contended=True)
    assert learned.prices[KERNEL] * 25 == pytest.approx(SECOND, rel=0.3)


def test_kernels_too_short_to_be_sampled_become_cheap() -> None:
    learned = Learned({KERNEL: 1000.0})
    for _ in range(10):
        learned = learn(learned, WorkSample(SECOND, 0, {KERNEL: 1000}))
    assert learned.prices[KERNEL] * 1000 <= SECOND / 100 * 0.6


samples = st.builds(
    WorkSample,
    st.integers(1, 10**12),
    st.integers(0, 10**12),
    st.dictionaries(st.integers(0, 127), st.integers(1, 2**62), min_size=1, max_size=5),
)


@given(st.lists(st.tuples(samples, st.booleans()), max_size=30))
def test_prices_are_positive_and_at_most_double_in_a_sample(seen: list[tuple[WorkSample, bool]]) -> None:
    """For any content of a region."""
    learned = Learned()
    for sample, contended in seen:
        before, learned = learned.prices, learn(learned, sample, contended=contended)
        assert all(price > 0 for price in learned.prices.values())
        assert all(
            learned.prices[kind] <= 2.001 * price for kind, price in before.items() if kind in learned.prices
        )


# --- several kinds ------------------------------------------------------------------------------


def decoding(learned: Learned, seconds: int = 15) -> Learned:
    """A server that decodes with 25 percent: 12 or 13 graphs of 20 ms in a second."""
    for second in range(seconds):
        learned = learn(learned, WorkSample(SECOND, SECOND // 4, {KERNEL: 12 + second % 2}))
    return learned


def test_a_new_kind_gets_the_time_that_the_others_leave() -> None:
    learned = decoding(Learned())
    learned = learn(learned, WorkSample(SECOND, SECOND * 3 // 4, {KERNEL: 12, PROMPT: 1000}))
    assert learned.prices[PROMPT] * 1000 == pytest.approx(SECOND / 2, rel=0.1)
    assert learned.prices[KERNEL] == pytest.approx(20e6, rel=0.1)


def test_a_new_kind_that_takes_little_has_no_price_until_it_is_more_than_noise() -> None:
    learned = decoding(Learned())
    sample = WorkSample(SECOND, SECOND * 28 // 100, {KERNEL: 12, PROMPT: 1000})
    learned = learn(learned, sample)
    assert PROMPT not in learned.prices
    learned = learn(learned, sample)
    assert 0.4 < learned.prices[PROMPT] * 1000 / (SECOND * 4 / 100) <= 1
    assert learned.prices[KERNEL] == pytest.approx(20e6, rel=0.1)


def test_a_new_kind_gets_a_price_after_some_samples_in_any_case() -> None:
    learned = decoding(Learned())
    for _ in range(10):
        learned = learn(learned, WorkSample(SECOND, SECOND // 4, {KERNEL: 12, TINY: 1}))
    assert 0 < learned.prices[TINY] < 20e6


def test_a_price_follows_the_samples_in_which_its_kind_takes_most_of_the_time() -> None:
    learned = Learned({KERNEL: 20e6, PROMPT: 1e6})
    for _ in range(5):
        learned = learn(learned, WorkSample(SECOND, SECOND // 8, {KERNEL: 12, PROMPT: 1}))
    assert learned.prices[PROMPT] > 0.9e6
    assert learned.prices[KERNEL] < 12e6


# --- GPUs that wait for each other ---------------------------------------------------------------


@dataclass
class Rank:
    """One of two GPUs that meet after each step; the one that is ahead waits, and counts as busy."""

    learned: Learned = field(default_factory=lambda: Learned({KERNEL: 1.0}))

    def steps(self, percent: int) -> float:
        """The steps of a second for which it has tokens; a step is 1 ms of work."""
        return percent / 100 * 1000 / self.learned.prices[KERNEL]


def pair_steps(seconds: int, seed: int, *, contended: bool, coupled: bool) -> list[float]:
    """The steps in each second of two ranks with 25 percent, whose prices begin apart."""
    source = random.Random(seed)
    ranks = (Rank(Learned({KERNEL: source.uniform(0.5, 2)})), Rank())
    found = []
    for _ in range(seconds):
        steps = min(1000.0, *(rank.steps(25) for rank in ranks))
        found.append(steps)
        last = min(ranks, key=lambda rank: rank.steps(25))
        for rank in ranks:
            busy = steps / 1000 if rank is last else source.uniform(steps / 1000, 1)
            sample = WorkSample(SECOND, round(busy * 100) * SECOND // 100, {KERNEL: round(steps * 1_000_000)})
            rank.learned = with_sample(rank.learned, sample, contended=contended)
        ratios = [rank.learned.ratio for rank in ranks]
        assert not coupled or is_same_work(ranks[0].learned, ranks[1].learned)
        for rank in ranks:
            ratio = min(ratios) if coupled else rank.learned.ratio
            rank.learned = followed_ratio(rank.learned, ratio, contended=contended)
    return found


@given(st.integers(0, 10**6), st.booleans())
def test_ranks_of_one_container_keep_their_share(seed: int, contended: bool) -> None:  # noqa: FBT001
    assert mean(pair_steps(60, seed, contended=contended, coupled=True)[40:]) == pytest.approx(250, rel=0.2)


@given(st.integers(0, 10**6))
def test_ranks_of_two_containers_keep_their_share_without_other_programs(seed: int) -> None:
    steps = pair_steps(60, seed, contended=False, coupled=False)[40:]
    assert mean(steps) == pytest.approx(250, rel=0.2)


def test_gpus_that_did_other_work_do_not_follow_each_other() -> None:
    one = with_sample(Learned(), WorkSample(SECOND, SECOND, {KERNEL: 100}), contended=False)
    for work in ({KERNEL: 50}, {PROMPT: 100}, {KERNEL: 100, PROMPT: 60}):
        other = with_sample(
            Learned({KERNEL: 1e7, PROMPT: 1e7}), WorkSample(SECOND, SECOND, work), contended=False
        )
        assert not is_same_work(one, other)
    assert is_same_work(one, one)
    assert not is_same_work(one, Learned())


def test_a_kind_without_a_price_costs_nothing() -> None:
    assert cost_ns({KERNEL: 2.0}, {KERNEL: 3, PROMPT: 9}) == 6
