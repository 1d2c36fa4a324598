"""Pauses after failed writes of each object."""

import pytest

from gpushare.deviceplugin.api.backoff import BackoffPolicy, WriteBackoff
from gpushare.errors import ApiError

POLICY = BackoffPolicy(initial_s=1, max_s=8, denied_s=100)


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def backoff(clock: Clock) -> WriteBackoff:
    """A backoff without jitter."""
    return WriteBackoff(POLICY, clock=clock, jitter=lambda: 1)


def test_pauses_double_up_to_the_maximum(backoff: WriteBackoff, clock: Clock) -> None:
    pauses = []
    for _ in range(6):
        pauses.append(backoff.failed("a"))
        clock.now += pauses[-1]
    assert pauses == [1, 2, 4, 8, 8, 8]


def test_each_object_has_its_own_pause(backoff: WriteBackoff, clock: Clock) -> None:
    backoff.failed("a")
    assert (backoff.wait_s("a"), backoff.wait_s("b")) == (1, 0)
    clock.now += 1
    assert backoff.wait_s("a") == 0


def test_a_success_ends_the_pause_and_the_count(backoff: WriteBackoff, clock: Clock) -> None:
    clock.now += backoff.failed("a") + backoff.failed("a")
    backoff.succeeded("a")
    assert (backoff.wait_s("a"), backoff.failed("a")) == (0, 1)


def test_a_failure_long_ago_does_not_count(backoff: WriteBackoff, clock: Clock) -> None:
    clock.now += backoff.failed("a") + backoff.failed("a")
    clock.now += 17
    assert backoff.failed("a") == 1


def test_retry_after_and_denied_writes_make_a_pause_longer(clock: Clock) -> None:
    def pause(error: ApiError) -> float:
        return WriteBackoff(POLICY, clock=clock, jitter=lambda: 1).failed("a", error)

    assert pause(ApiError("busy", status=429, retry_after_s=30)) == 30
    assert pause(ApiError("no", status=403)) == 100
    assert pause(ApiError("no", status=422)) == 100
    assert pause(ApiError("no", status=500)) == 1


@pytest.mark.parametrize("status", [403, 422])
def test_a_denied_write_that_is_not_optional_has_the_usual_pause(backoff: WriteBackoff, status: int) -> None:
    assert backoff.failed("a", ApiError("no", status=status), optional=False) == 1


def test_pauses_are_spread() -> None:
    pauses = {WriteBackoff(POLICY).failed("a") for _ in range(20)}
    assert len(pauses) > 10
    assert all(0.5 <= pause <= 1 for pause in pauses)
