"""Events per second."""

from dataclasses import dataclass

import pytest

from gpushare.runtime.rate import RateLimit


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def taken(limit: RateLimit, key: str) -> int:
    return [limit.take(key) for _ in range(150)].count(True)


def test_each_key_has_its_events_and_gets_more_with_time(clock: Clock) -> None:
    limit = RateLimit(20, 100, clock)
    assert taken(limit, "a") == 100
    assert limit.take("b")
    clock.now += 1
    assert taken(limit, "a") == 20


def test_an_event_that_is_given_back_can_be_taken_again(clock: Clock) -> None:
    limit = RateLimit(20, 100, clock)
    taken(limit, "a")
    limit.give_back("a")
    assert taken(limit, "a") == 1


def test_there_are_never_more_than_the_most(clock: Clock) -> None:
    limit = RateLimit(20, 100, clock)
    limit.give_back("a")
    clock.now += 1000
    limit.forget_full()
    assert taken(limit, "a") == 100
