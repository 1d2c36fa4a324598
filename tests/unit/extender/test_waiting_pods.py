"""The pods that filter has refused for a lack of free units."""

import pytest

from gpushare.errors import InvalidRequest
from gpushare.extender.waiting_pods import WaitingPods, decoded
from tests.support.builders.scheduling import cluster, node

LEDGER = cluster(node("a", 14), node("b", 14))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_wait_counts_from_the_first_refusal_and_the_nodes_are_the_last() -> None:
    clock = Clock()
    waiting = WaitingPods(clock)
    waiting.note("p", ["a", "unknown"], LEDGER)
    clock.now = 5
    waiting.note("p", ["b"], LEDGER)
    assert waiting.longer_than(6) == {}
    assert waiting.longer_than(5) == {"p": ("b",)}


def test_a_pod_that_fits_or_has_no_such_node_waits_no_longer() -> None:
    waiting = WaitingPods(Clock())
    for uid in ("p", "q"):
        waiting.note(uid, ["a"], LEDGER)
    waiting.forget("p")
    waiting.note("q", [], LEDGER)
    assert waiting.longer_than(0) == {}


def test_a_pod_that_the_scheduler_no_longer_tries_is_forgotten() -> None:
    clock = Clock()
    waiting = WaitingPods(clock)
    waiting.note("p", ["a"], LEDGER)
    clock.now = 400
    assert waiting.longer_than(0) == {}


def test_the_oldest_of_too_many_are_forgotten() -> None:
    waiting = WaitingPods(Clock())
    for number in range(501):
        waiting.note(f"p{number}", ["a"], LEDGER)
    found = waiting.longer_than(0)
    assert len(found) == 500
    assert "p0" not in found


def test_the_leader_is_told_each_refusal_once() -> None:
    follower, leader = WaitingPods(Clock()), WaitingPods(Clock())
    follower.note("p", ["a", "b"], LEDGER)
    told = follower.untold()
    assert told is not None
    assert follower.untold() is None
    leader.note_all(decoded(told), LEDGER)
    assert leader.longer_than(0) == {"p": ("a", "b")}


@pytest.mark.parametrize("body", [b"", b"{}", b'[{"uid": 1}]'])
def test_what_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="waiting pods"):
        decoded(body)
