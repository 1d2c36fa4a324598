"""Events per second."""

from dataclasses import dataclass

import pytest

from gpushare.runtime.rate import RateLimit, TokenBucket


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


def test_a_bucket_of_seconds_starts_full_and_accrues_its_share_up_to_its_maximum(clock: Clock) -> None:
    bucket = TokenBucket(0.05, 1.0, clock)
    assert bucket.full
    bucket.take(1.0)
    assert bucket.left == 0
    clock.now += 10
    assert bucket.left == pytest.approx(0.5)
    clock.now += 1000
    assert bucket.left == 1.0


def test_what_was_taken_beyond_a_bucket_accrues_first(clock: Clock) -> None:
    bucket = TokenBucket(0.05, 1.0, clock)
    bucket.take(1.5)
    clock.now += 10
    assert bucket.left == pytest.approx(0)
    clock.now += 1
    assert bucket.left == pytest.approx(0.05)


def test_in_the_long_run_the_share_of_a_bucket_is_taken_however_often_it_is_asked(clock: Clock) -> None:
    bucket, taken = TokenBucket(0.05, 1.0, clock), 0.0
    for _ in range(100_000):
        clock.now += 0.01
        if bucket.left >= 0.03:
            clock.now += 0.03
            bucket.take(0.03)
            taken += 0.03
    assert 0.045 < taken / clock.now < 0.055
