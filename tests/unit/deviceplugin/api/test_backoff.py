"""Pauses after failures: they grow, are bounded, and are each object's own."""

import pytest

from gpushare.deviceplugin.api.backoff import Backoff, BackoffPolicy
from gpushare.errors import ApiError

PACE = BackoffPolicy(initial_s=1, max_s=8, denied_s=100)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set; and no jitter."""
    now = [1000.0]
    monkeypatch.setattr("gpushare.deviceplugin.api.backoff.time.monotonic", lambda: now[0])
    monkeypatch.setattr("gpushare.deviceplugin.api.backoff.random.uniform", lambda _, high: high)
    return now


def test_pauses_double_up_to_the_longest(clock: list[float]) -> None:
    found = Backoff(PACE)
    pauses = []
    for _ in range(6):
        pauses.append(found.failed("a"))
        clock[0] += pauses[-1]
    assert pauses == [1, 2, 4, 8, 8, 8]


def test_a_pause_is_its_objects_own_and_passes(clock: list[float]) -> None:
    found = Backoff(PACE)
    found.failed("a")
    assert (found.wait_s("a"), found.wait_s("b")) == (1, 0)
    clock[0] += 1
    assert found.wait_s("a") == 0


def test_a_success_ends_the_pause_and_the_count(clock: list[float]) -> None:
    found = Backoff(PACE)
    clock[0] += found.failed("a") + found.failed("a")
    found.succeeded("a")
    assert (found.wait_s("a"), found.failed("a")) == (0, 1)


def test_a_failure_that_is_long_past_counts_no_more(clock: list[float]) -> None:
    found = Backoff(PACE)
    clock[0] += found.failed("a") + found.failed("a")
    clock[0] += 17
    assert found.failed("a") == 1


def test_the_servers_own_wish_and_a_missing_right_make_it_longer(clock: list[float]) -> None:
    assert clock
    assert Backoff(PACE).failed("a", ApiError("busy", status=429, retry_after_s=30)) == 30
    assert Backoff(PACE).failed("a", ApiError("no", status=403)) == 100
    assert Backoff(PACE).failed("a", ApiError("no", status=422)) == 100
    assert Backoff(PACE).failed("a", ApiError("no", status=500)) == 1


def test_pauses_are_spread() -> None:
    pauses = {Backoff(PACE).failed("a") for _ in range(20)}
    assert len(pauses) > 10
    assert all(0.5 <= pause <= 1 for pause in pauses)
