"""Leader election as decisions: what to do about a Lease, from when to bind, and until when."""

from dataclasses import dataclass, replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpushare.extender.lease import Move, Sight, Terms, bind_from, decide, lapses_at, look
from gpushare.ports import LeaseRecord

TERMS = Terms(lease_s=15, renew_deadline_s=10, retry_s=2, post_s=3)


def record(holder: str = "other", *, renewed: str = "12:00", duration_s: int = 15) -> LeaseRecord:
    return LeaseRecord(holder, "10.0.0.1:39999", duration_s, renewed, 1, "7")


# --- look ----------------------------------------------------------------------------------------


def test_a_first_look_dates_what_it_sees_from_now() -> None:
    assert look(None, record(), 5.0) == Sight(record(), 5.0)


def test_content_that_did_not_change_keeps_the_time_when_it_was_first_seen() -> None:
    assert look(Sight(record(), 5.0), record(), 9.0).since == 5.0


def test_a_renewal_is_a_sign_of_life() -> None:
    assert look(Sight(record(), 5.0), record(renewed="12:02"), 9.0) == Sight(record(renewed="12:02"), 9.0)


def test_a_write_that_changes_only_the_version_is_a_sign_of_life_too() -> None:
    assert look(Sight(record(), 5.0), replace(record(), version="8"), 9.0).since == 9.0


def test_the_absence_of_a_lease_is_content_too() -> None:
    assert look(Sight(None, 5.0), None, 9.0).since == 5.0
    assert look(Sight(record(), 5.0), None, 9.0).since == 9.0


# --- decide --------------------------------------------------------------------------------------


@pytest.mark.parametrize("now", [0.0, 5.0, 1e9])
def test_a_lease_that_is_not_there_is_created(now: float) -> None:
    assert decide(Sight(None, 0.0), "me", now) is Move.CREATE


@pytest.mark.parametrize("now", [0.0, 14.0, 1e9])
def test_ones_own_lease_is_renewed_however_old_it_is(now: float) -> None:
    assert decide(Sight(record("me"), 0.0), "me", now) is Move.RENEW


def test_a_lease_that_was_given_back_is_taken_at_once() -> None:
    assert decide(Sight(record(""), 100.0), "me", 100.0) is Move.TAKE


@pytest.mark.parametrize(
    ("age", "move"), [(0.0, Move.FOLLOW), (14.999, Move.FOLLOW), (15.0, Move.TAKE), (99.0, Move.TAKE)]
)
def test_a_lease_that_did_not_change_for_its_duration_may_be_taken(age: float, move: Move) -> None:
    assert decide(Sight(record(), 100.0), "me", 100.0 + age) is move


def test_the_duration_that_counts_is_the_one_that_the_holder_wrote() -> None:
    assert decide(Sight(record(duration_s=60), 0.0), "me", 30.0) is Move.FOLLOW


def test_the_time_that_the_holder_wrote_does_not_matter() -> None:
    """Clocks of two machines may differ by any amount."""
    assert decide(Sight(record(renewed="1970-01-01T00:00:00Z"), 0.0), "me", 1.0) is Move.FOLLOW


# --- bind_from and lapses_at ---------------------------------------------------------------------


def test_after_a_lease_that_was_never_there_one_may_bind_at_once() -> None:
    assert bind_from(Sight(None, 0.0), TERMS, 4.0) == 4.0


def test_a_lease_that_was_deleted_under_a_holder_is_waited_for_in_full() -> None:
    assert bind_from(Sight(None, 0.0), TERMS, 4.0, others=True) == 4.0 + TERMS.lease_s + TERMS.post_s


def test_after_a_lease_that_was_given_back_one_may_bind_at_once() -> None:
    assert bind_from(Sight(record(""), 0.0), TERMS, 4.0) == 4.0


def test_after_a_holder_that_fell_silent_its_last_post_must_have_ended() -> None:
    assert bind_from(Sight(record(), 100.0), TERMS, 115.0) == 118.0


def test_a_holder_that_is_silent_for_long_needs_no_more_wait() -> None:
    assert bind_from(Sight(record(), 100.0), TERMS, 500.0) == 500.0


def test_a_replica_that_restarts_under_its_old_name_waits_for_the_binds_of_its_former_life() -> None:
    assert bind_from(Sight(record("me"), 100.0), TERMS, 100.0) == 118.0


def test_a_post_begins_only_if_it_ends_before_the_renewal_deadline() -> None:
    assert lapses_at(100.0, TERMS) + TERMS.post_s == 110.0


def test_the_last_post_of_a_holder_ends_before_anybody_may_take_its_lease() -> None:
    first_seen_at_the_earliest = 100.0
    assert lapses_at(100.0, TERMS) + TERMS.post_s < first_seen_at_the_earliest + record().duration_s


# --- two replicas --------------------------------------------------------------------------------

Action = Literal["read", "write", "hear", "leave", "crash"]
Step = tuple[int, Action, float]

quarters = (st.integers(0, 12) | st.integers(0, 24) | st.integers(0, 100)).map(lambda n: n / 4)
"""Pauses; quarters of a second are exact in binary, so that no rounding blurs a bound."""

rounds = st.tuples(st.integers(0, 1), quarters, quarters, quarters).map(
    lambda r: [(r[0], "read", r[1]), (r[0], "write", r[2] / 8), (r[0], "hear", r[3] / 8)]
)
"""An election round as it mostly goes: read, and write soon after."""
oddities = st.tuples(
    st.integers(0, 1), st.sampled_from(("read", "write", "hear", "leave", "crash")), quarters
).map(lambda step: [step])
schedules = st.lists(rounds | rounds | oddities, min_size=6, max_size=30).map(
    lambda parts: [step for part in parts for step in part]
)


@dataclass
class ServerFake:
    """A fake Lease with compare-and-swap, as the API server has it."""

    record: LeaseRecord | None = None
    writes: int = 0

    def write(self, new: LeaseRecord) -> LeaseRecord | None:
        """What is stored; None for a conflict."""
        if new.version != (self.record.version if self.record else ""):
            return None
        self.writes += 1
        self.record = replace(new, version=str(self.writes), renewed=str(self.writes))
        return self.record


@dataclass
class Replica:
    """The steps of ``leadership`` one by one, with a clock of its own and any pause between them."""

    name: str
    offset: float
    sight: Sight | None = None
    read_at: float = 0.0
    move: Move | None = None
    written: LeaseRecord | None = None
    binds_from: float | None = None
    lapses: float = float("-inf")

    def clock(self, t: float) -> float:
        return t + self.offset

    def read(self, server: ServerFake, t: float) -> None:
        self.sight = look(self.sight, server.record, self.clock(t))
        self.read_at, self.written = self.clock(t), None
        self.move = decide(self.sight, self.name, self.read_at)
        if self.move is Move.FOLLOW:
            self.binds_from, self.lapses, self.move = None, float("-inf"), None

    def write(self, server: ServerFake) -> None:
        if self.move is not None and self.sight is not None and self.written is None:
            seen = self.sight.record
            self.written = server.write(
                LeaseRecord(self.name, "", int(TERMS.lease_s), "", 0, seen.version if seen else "")
            )

    def hear(self, t: float) -> None:
        """The answer to the write arrives."""
        if self.written is None or self.move is None or self.sight is None:
            return
        if self.move is not Move.RENEW or self.binds_from is None:
            self.binds_from = bind_from(self.sight, TERMS, self.read_at)
        self.lapses = lapses_at(self.read_at, TERMS)
        self.sight = look(self.sight, self.written, self.clock(t))
        self.move = self.written = None

    def window(self, start: float, end: float) -> tuple[float, float] | None:
        """The first and last instant between start and end at which a POST may begin."""
        if self.binds_from is None:
            return None
        first = max(start, self.binds_from - self.offset)
        last = min(end, self.lapses - self.offset)
        return (first, last) if first < last else None


class World:
    """Two replicas and one Lease. Remembers from when to when each life of a replica could post."""

    def __init__(self, offsets: tuple[float, float]) -> None:
        self.server = ServerFake()
        self.t = 0.0
        self.replicas = [Replica("a", offsets[0]), Replica("b", offsets[1])]
        self.lives = [0, 1]
        self.windows: list[tuple[int, float, float]] = []

    def advance(self, seconds: float) -> None:
        end = self.t + seconds
        for life, replica in zip(self.lives, self.replicas, strict=True):
            window = replica.window(self.t, end)
            if window:
                self.windows.append((life, *window))
        self.t = end

    def step(self, who: int, action: Action) -> None:
        replica = self.replicas[who]
        match action:
            case "read":
                replica.read(self.server, self.t)
            case "write":
                replica.write(self.server)
            case "hear":
                replica.hear(self.t)
            case "leave":
                self._leave(who)
            case "crash":
                self._restart(who)

    def _leave(self, who: int) -> None:
        """End the POSTs under way, give back what is ours, start anew."""
        replica = self.replicas[who]
        replica.binds_from = None
        self.advance(TERMS.post_s)
        seen = replica.sight.record if replica.sight else None
        if seen is not None and seen.holder == replica.name:
            self.server.write(replace(seen, holder="", duration_s=1))
        self._restart(who)

    def _restart(self, who: int) -> None:
        replica = self.replicas[who]
        self.replicas[who] = Replica(replica.name, replica.offset + 1000)
        self.lives[who] = max(self.lives) + 1


@settings(deadline=None, max_examples=1000)
@given(st.tuples(quarters, quarters), schedules)
def test_no_replica_may_bind_while_a_post_of_another_could_be_under_way(
    offsets: tuple[float, float], schedule: list[Step]
) -> None:
    world = World(offsets)
    for who, action, pause in schedule:
        world.advance(pause)
        world.step(who, action)
    world.advance(100)
    for life, first, last in world.windows:
        for other, begin, end in world.windows:
            apart = begin >= last + TERMS.post_s or first >= end + TERMS.post_s
            assert life == other or apart, ((life, first, last), (other, begin, end))


def test_the_simulation_lets_replicas_bind_and_hand_over() -> None:
    """Else the property above would say nothing."""
    world = World((0.0, 50.0))
    schedule: list[Step] = [
        (0, "read", 0), (0, "write", 0), (0, "hear", 0),
        (1, "read", 4), (0, "leave", 0),
        (1, "read", 0), (1, "write", 0), (1, "hear", 0),
        (0, "read", 1), (0, "read", 15), (0, "write", 0), (0, "hear", 0),
    ]  # fmt: skip
    for who, action, pause in schedule:
        world.advance(pause)
        world.step(who, action)
    world.advance(100)
    assert world.windows == [(0, 0.0, 4.0), (1, 7.0, 8.0), (1, 8.0, 14.0), (2, 26.0, 30.0)]
