"""The sample stays bounded, learning is due when it says, and sequences repeat themselves."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpushare.scheduling.placement.replay.needs import Need, Room
from gpushare.scheduling.placement.replay.sample import LENGTH, SEQUENCES, Sample, is_due, worth
from gpushare.scheduling.placement.replay.value import WORTH

SMALL, LARGE = Need(1000, 1000, 1, 500), Need(8000, 1000, 8, 1000)
TWO, EIGHT = (Room(64_000, 64_000, 0, 1000, (1000,) * count) for count in (2, 8))


def test_learning_is_due_often_at_first_and_then_every_800_pods() -> None:
    due = [25, 50, 100, 200, 400, 800, 1600, 2400, 3200]
    assert [seen for seen in range(1, 3201) if is_due(seen)] == due
    sample = Sample()
    assert [seen for seen in range(1, 3201) if sample.see(SMALL)] == due


@given(st.integers(1, 5000))
def test_the_sample_covers_all_that_was_seen_evenly(seen: int) -> None:
    sample = Sample()
    for number in range(seen):
        sample.see(SMALL._replace(memory=number))
    kept = sorted({need.memory for each in sample.sequences([TWO]) for need, _ in each})
    gaps = Counter(after - before for before, after in pairwise(kept))
    assert len(kept) <= 2048
    assert kept[0] == 0
    assert len(gaps) <= 1


def test_equal_pods_give_equal_sequences_of_all_of_them() -> None:
    samples = Sample(), Sample()
    for sample in samples:
        for number in range(100):
            sample.see(SMALL if number % 4 else LARGE)
    first, second = (sample.sequences([TWO, EIGHT]) for sample in samples)
    assert first == second
    assert (len(first), {len(each) for each in first}) == (SEQUENCES, {LENGTH})
    counts = Counter(need for each in first for need, _ in each)
    # 8,192 pods are 81 whole rounds of 100, and a part of one.
    assert 81 * 25 <= counts[LARGE] <= 82 * 25


def test_a_pod_is_worth_more_the_fewer_nodes_could_take_it() -> None:
    kinds = Counter({TWO: 3, EIGHT: 1})
    assert worth(SMALL, kinds) == WORTH
    assert worth(LARGE, kinds) == WORTH + WORTH * 3 // 4
    assert worth(Need(10**6, 0, 1, 1), kinds) == 2 * WORTH


def test_without_nodes_there_is_no_price() -> None:
    assert worth(SMALL, Counter()) == WORTH
