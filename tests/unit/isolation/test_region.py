"""Processes that have ended, in what is read from a region."""

from gpushare.isolation.region import CardUse, ProcessUse, Region, without_ended

CARDS = (CardUse("GPU-0", 100, 60, 90, 1), CardUse("GPU-1", 100, 5, 5, 0))
FIRST, SECOND = ProcessUse(7, 1000, (40, 0)), ProcessUse(8, 2000, (20, 5))


def test_the_memory_of_an_ended_process_is_not_in_use_and_the_peak_stays() -> None:
    left = without_ended(Region(CARDS, (FIRST, SECOND)), {(8, 2000)})
    assert left.processes == (SECOND,)
    assert [(card.used, card.peak) for card in left.cards] == [(20, 90), (5, 5)]


def test_another_process_with_the_pid_of_an_ended_one_is_another() -> None:
    assert without_ended(Region(CARDS, (FIRST,)), {(7, 3000)}).processes == ()


def test_a_process_with_an_unknown_start_counts_as_running() -> None:
    unknown = Region(CARDS, (ProcessUse(7, 0, (40, 0)), SECOND))
    assert without_ended(unknown, {(8, 2000)}) is unknown
