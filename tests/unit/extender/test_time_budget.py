"""A share of the time that may be spent."""

from gpushare.extender.time_budget import TimeBudget


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_starts_full_and_accrues_its_share_up_to_its_maximum() -> None:
    clock = Clock()
    budget = TimeBudget(0.05, 1.0, clock)
    assert budget.allows(1.0)
    budget.spend(1.0)
    assert not budget.allows(0.01)
    clock.now += 10
    assert budget.allows(0.5)
    assert not budget.allows(0.51)
    clock.now += 1000
    assert budget.allows(1.0)
    assert not budget.allows(1.01)


def test_what_was_spent_beyond_it_is_saved_first() -> None:
    clock = Clock()
    budget = TimeBudget(0.05, 1.0, clock)
    budget.spend(1.5)
    clock.now += 10
    assert not budget.allows(0.01)
    clock.now += 1
    assert budget.allows(0.01)


def test_in_the_long_run_its_share_is_spent_however_often_it_is_asked() -> None:
    clock = Clock()
    budget = TimeBudget(0.05, 1.0, clock)
    spent = 0.0
    for _ in range(100_000):
        clock.now += 0.01
        if budget.allows(0.03):
            clock.now += 0.03
            budget.spend(0.03)
            spent += 0.03
    assert 0.045 < spent / (clock.now - 100.0) < 0.055
