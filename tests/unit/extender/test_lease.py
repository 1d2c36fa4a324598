"""Leader election as decisions: the next step for a Lease, and the time during which binds are allowed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpushare.extender.lease import (
    LeaseAction,
    LeaseDurations,
    LeaseObservation,
    binds_from,
    binds_until,
    decide,
    observe,
    recreated,
    unchanged_since_release,
    wait_cause,
)
from gpushare.ports import LeaseRecord

DURATIONS = LeaseDurations(lease_s=15, renew_deadline_s=10, retry_s=2, post_s=3)


def record(
    holder: str = "other", *, renewed: str = "12:00", duration_s: int = 15, transitions: int = 1
) -> LeaseRecord:
    return LeaseRecord(holder, "10.0.0.1:39999", duration_s, renewed, transitions, "7", "uid")


# --- observe -------------------------------------------------------------------------------------


def test_a_first_observation_starts_now() -> None:
    assert observe(None, record(), 5.0) == LeaseObservation(record(), 5.0)


def test_content_that_did_not_change_keeps_the_time_when_it_was_first_seen() -> None:
    assert observe(LeaseObservation(record(), 5.0), record(), 9.0).since == 5.0


def test_a_renewal_is_a_sign_of_life() -> None:
    assert observe(LeaseObservation(record(), 5.0), record(renewed="12:02"), 9.0) == LeaseObservation(
        record(renewed="12:02"), 9.0
    )


def test_a_write_that_changes_only_the_version_is_a_sign_of_life_too() -> None:
    assert observe(LeaseObservation(record(), 5.0), replace(record(), version="8"), 9.0).since == 9.0


def test_the_absence_of_a_lease_is_content_too() -> None:
    assert observe(LeaseObservation(None, 5.0), None, 9.0).since == 5.0
    assert observe(LeaseObservation(record(), 5.0), None, 9.0).since == 9.0


# --- decide --------------------------------------------------------------------------------------


@pytest.mark.parametrize("now", [0.0, 5.0, 1e9])
def test_a_lease_that_is_not_there_is_taken(now: float) -> None:
    assert decide(LeaseObservation(None, 0.0), "me", now) is LeaseAction.TAKE


@pytest.mark.parametrize("now", [0.0, 14.0, 1e9])
def test_ones_own_lease_is_renewed_however_old_it_is(now: float) -> None:
    assert decide(LeaseObservation(record("me"), 0.0), "me", now) is LeaseAction.RENEW


def test_a_lease_that_was_released_is_taken_at_once() -> None:
    assert decide(LeaseObservation(record(""), 100.0), "me", 100.0) is LeaseAction.TAKE


@pytest.mark.parametrize(
    ("age", "action"),
    [
        (0.0, LeaseAction.FOLLOW),
        (14.999, LeaseAction.FOLLOW),
        (15.0, LeaseAction.TAKE),
        (99.0, LeaseAction.TAKE),
    ],
)
def test_a_lease_that_did_not_change_for_its_duration_may_be_taken(age: float, action: LeaseAction) -> None:
    assert decide(LeaseObservation(record(), 100.0), "me", 100.0 + age) is action


def test_the_duration_that_counts_is_the_one_that_the_holder_wrote() -> None:
    assert decide(LeaseObservation(record(duration_s=60), 0.0), "me", 30.0) is LeaseAction.FOLLOW


def test_the_time_that_the_holder_wrote_does_not_matter() -> None:
    """Clocks of two machines may differ by any amount."""
    assert (
        decide(LeaseObservation(record(renewed="1970-01-01T00:00:00Z"), 0.0), "me", 1.0) is LeaseAction.FOLLOW
    )


# --- binds_from and binds_until ------------------------------------------------------------------


@pytest.mark.parametrize("found", [None, record("", transitions=0)], ids=["absent", "never-held"])
def test_a_lease_without_a_known_holder_is_waited_for_in_full(
    found: LeaseRecord | None,
) -> None:
    assert DURATIONS.take_over_s == DURATIONS.lease_s + DURATIONS.post_s
    assert binds_from(LeaseObservation(found, 0.0), DURATIONS, 4.0) == 4.0 + DURATIONS.take_over_s


def test_after_a_lease_that_was_released_one_may_bind_at_once() -> None:
    assert binds_from(LeaseObservation(record(""), 0.0), DURATIONS, 4.0) == 4.0


def test_a_new_holder_waits_for_a_late_post_that_a_lost_one_began_just_before_its_lease_expired() -> None:
    assert DURATIONS.late_s == 20
    assert binds_from(LeaseObservation(record(), 100.0), DURATIONS, 115.0) == 115.0 - 3.0 + 20.0


def test_a_quiet_holder_had_no_post_so_its_lease_need_only_expire() -> None:
    quiet = replace(record(), quiet=True)
    assert binds_from(LeaseObservation(quiet, 100.0), DURATIONS, 115.0) == 115.0


def test_a_holder_lost_long_ago_needs_no_more_wait() -> None:
    assert binds_from(LeaseObservation(record(), 100.0), DURATIONS, 500.0) == 500.0


def test_a_replica_that_restarts_under_its_old_name_waits_for_the_binds_of_its_former_life() -> None:
    assert binds_from(LeaseObservation(record("me"), 100.0), DURATIONS, 100.0) == 132.0


@pytest.mark.parametrize(
    ("lease", "cause"),
    [
        (None, "there was no Lease"),
        (record("", transitions=0), "the Lease had no holder"),
        (record("", transitions=2), "it lists pods and nodes again"),
        (record("other"), "the last binds of other"),
    ],
)
def test_the_cause_of_a_wait_does_not_name_a_holder_that_never_was(
    lease: LeaseRecord | None, cause: str
) -> None:
    assert wait_cause(lease).startswith(cause)


def test_a_post_is_never_late_by_less_than_client_and_server_may_take_for_it() -> None:
    assert replace(DURATIONS, api_request_s=1).late_s == 2 * DURATIONS.post_s


def test_a_post_begins_only_if_it_ends_before_the_renewal_deadline() -> None:
    assert binds_until(100.0, DURATIONS) + DURATIONS.post_s == 110.0


# --- recreated, unchanged_since_release ------------------------------------------------------------


def test_a_lease_of_another_uid_is_another_lease() -> None:
    assert recreated(None, record())
    assert recreated(record(), replace(record(), uid="new"))
    assert not recreated(record(), replace(record("me"), version="8"))


@pytest.mark.parametrize(
    ("first", "taken", "unchanged"),
    [
        (record(""), record(""), True),
        (record(""), replace(record(""), version="8"), False),
        (record(), record(), False),
        (record("", transitions=0), record("", transitions=0), False),
        (None, None, False),
    ],
    ids=["free", "free-again", "held", "never-held", "absent"],
)
def test_only_a_lease_that_stayed_released_proves_that_no_replica_has_bound(
    first: LeaseRecord | None, taken: LeaseRecord | None, *, unchanged: bool
) -> None:
    assert unchanged_since_release(LeaseObservation(first, 0.0), LeaseObservation(taken, 9.0)) is unchanged
    assert not unchanged_since_release(None, LeaseObservation(taken, 9.0))


# --- two replicas --------------------------------------------------------------------------------

Action = Literal["read", "write", "hear", "rest", "bind", "leave", "crash", "delete", "refuse", "grant"]
Step = tuple[int, Action, float]


def held_by(who: int, pause: float) -> list[Step]:
    """One round in which the replica takes or renews the Lease."""
    return [(who, "read", pause), (who, "write", 0.0), (who, "hear", 0.0)]


quarters = (st.integers(0, 12) | st.integers(0, 24) | st.integers(0, 100)).map(lambda n: n / 4)
"""Pauses; quarters of a second are exact in binary, so that no rounding blurs a bound."""

rounds = st.tuples(st.integers(0, 1), quarters, quarters, quarters).map(
    lambda r: [(r[0], "read", r[1]), (r[0], "write", r[2] / 8), (r[0], "hear", r[3] / 8)]
)
"""An election round as it mostly goes: read, and write soon after."""
steady = st.tuples(st.integers(0, 1), st.integers(4, 12)).map(lambda r: r[1] * held_by(r[0], 2.0))
"""Rounds in their proper time, for up to longer than a take-over takes."""
oddities = st.tuples(st.integers(0, 1), st.sampled_from(get_args(Action)), quarters).map(lambda step: [step])
schedules = st.lists(rounds | rounds | steady | oddities, min_size=6, max_size=30).map(
    lambda parts: [step for part in parts for step in part]
)


@dataclass
class ServerFake:
    """A fake Lease with compare-and-swap, as the API server has it: one that is absent is created."""

    record: LeaseRecord | None = None
    writes: int = 0

    def write(self, new: LeaseRecord) -> LeaseRecord | None:
        """What is stored; None for a conflict."""
        if self.record is not None and new.version != self.record.version:
            return None
        self.writes += 1
        count = str(self.writes)
        self.record = replace(
            new, version=count, renewed=count, uid=self.record.uid if self.record else count
        )
        return self.record


@dataclass
class Replica:
    """The steps of ``leadership`` one by one, with its clock and any pause between them.

    ``refused``: the API server lets it do nothing about the Lease.
    ``busy``: it wants to bind, which it announces by a write before its first POST, or does not know the
    outcome of a bind yet.
    """

    name: str
    offset: float
    refused: bool = False
    busy: bool = True
    announced: bool = False
    observation: LeaseObservation | None = None
    read_at: float = 0.0
    action: LeaseAction | None = None
    written: LeaseRecord | None = None
    binds_from: float | None = None
    lapses: float = float("-inf")

    def clock(self, t: float) -> float:
        return t + self.offset

    def read(self, server: ServerFake, t: float) -> None:
        self.read_at, self.written, self.action = self.clock(t), None, None
        if self.refused:
            return
        before = self.observation.record if self.observation else None
        if server.record and recreated(before, server.record):
            self.binds_from = None
        self.observation = observe(self.observation, server.record, self.read_at)
        action = decide(self.observation, self.name, self.read_at)
        if action is LeaseAction.FOLLOW:
            self.stop()
        else:
            self.action = action

    def stop(self) -> None:
        self.binds_from, self.lapses, self.announced = None, float("-inf"), False

    def write(self, server: ServerFake) -> None:
        if (
            self.action is not None
            and self.observation is not None
            and self.written is None
            and not self.refused
        ):
            seen = self.observation.record
            new = LeaseRecord(self.name, "", int(DURATIONS.lease_s), "", 1, seen.version if seen else "")
            self.announced = self.announced and self.busy
            self.written = server.write(replace(new, quiet=not self.busy))

    def hear(self, t: float) -> None:
        """The answer to the write arrives."""
        if self.written is None or self.action is None or self.observation is None:
            return
        seen = self.observation
        self.announced = not self.written.quiet
        if recreated(seen.record, self.written):
            self.binds_from, seen = None, LeaseObservation(None, self.read_at)
        if self.action is not LeaseAction.RENEW or self.binds_from is None:
            self.binds_from = binds_from(seen, DURATIONS, self.read_at)
        self.lapses = binds_until(self.read_at, DURATIONS)
        self.observation = observe(seen, self.written, self.clock(t))
        self.action = self.written = None

    def leads(self, t: float) -> bool:
        return self.binds_from is not None and self.binds_from <= self.clock(t) < self.lapses

    def window(self, start: float, end: float) -> tuple[float, float] | None:
        """The first and last instant between start and end at which a POST may begin."""
        if self.binds_from is None or not (self.busy and self.announced):
            return None
        first = max(start, self.binds_from - self.offset)
        last = min(end, self.lapses - self.offset)
        return (first, last) if first < last else None


class World:
    """Some replicas and one Lease. Remembers from when to when each life of a replica could post."""

    def __init__(self, offsets: Sequence[float], found: LeaseRecord | None = None) -> None:
        self.server = ServerFake(found)
        self.t = 0.0
        self.replicas = [Replica("ab"[i], offset) for i, offset in enumerate(offsets)]
        self.lives = [*range(len(offsets))]
        self.windows: list[tuple[int, float, float]] = []
        self.rests: list[tuple[int, float]] = []

    def advance(self, seconds: float) -> None:
        end = self.t + seconds
        for life, replica in zip(self.lives, self.replicas, strict=True):
            window = replica.window(self.t, end)
            if window:
                self.windows.append((life, *window))
        self.t = end

    def step(self, who: int, action: Action) -> None:
        who %= len(self.replicas)
        replica = self.replicas[who]
        match action:
            case "read":
                replica.read(self.server, self.t)
            case "write":
                replica.write(self.server)
            case "hear":
                replica.hear(self.t)
            case "rest":
                replica.busy = False
                self.rests.append((self.lives[who], self.t))
            case "bind":
                replica.busy = True
            case "leave":
                self._leave(who)
            case "crash":
                self._restart(who)
            case "delete":
                self.server.record = None
            case "refuse" | "grant":
                replica.refused = action == "refuse"

    def _leave(self, who: int) -> None:
        """End the POSTs in progress, release the Lease, start again."""
        replica = self.replicas[who]
        posting, replica.binds_from = replica.binds_from, None
        self.advance(DURATIONS.post_s)
        replica.binds_from = posting
        seen = replica.observation.record if replica.observation else None
        if seen is not None and replica.leads(self.t) and not replica.refused:
            self.server.write(replace(seen, holder="", duration_s=1))
        self._restart(who)

    def _restart(self, who: int) -> None:
        old = self.replicas[who]
        self.replicas[who] = Replica(old.name, old.offset + 1000, old.refused)
        self.lives[who] = max(self.lives) + 1

    def replicas_never_bind_at_the_same_time(self, post_s: float = DURATIONS.post_s) -> None:
        """The POSTs of one have ended before another may begin one."""
        for life, first, last in self.windows:
            for other, begin, end in self.windows:
                apart = begin >= self._ended(life, last, post_s) or first >= self._ended(other, end, post_s)
                assert life == other or apart, ((life, first, last), (other, begin, end))

    def _ended(self, life: int, last: float, post_s: float) -> float:
        """When a POST of this life that began at ``last`` has ended: a resting replica knows its outcome."""
        rests = [t for resting, t in self.rests if resting == life and t >= last]
        return min([last + post_s, *rests])


DELETED_THEN_GIVEN_BACK: list[Step] = [
    *held_by(0, 0.0), (0, "delete", 0.0),
    *held_by(1, 0.25), (1, "leave", 0.0),
    *held_by(1, 0.0),
]  # fmt: skip
"""The second creates the Lease, still waits for the first, and leaves: its next life must wait too."""
DELETED_BEFORE_A_WRITE: list[Step] = [
    *held_by(0, 0.0), (0, "crash", 0.0),
    (0, "read", 0.5), (1, "read", 0.5), (0, "read", 14.75), (1, "read", 0.25),
    (0, "write", 0.25), (0, "hear", 0.0), (0, "delete", 0.5), (1, "write", 0.25), (1, "hear", 0.0),
]  # fmt: skip
"""Both find the Lease lapsed; the first takes it, it is deleted, and the write of the second creates it."""


@settings(max_examples=10 * settings().max_examples)
@example((0.0, 0.0), record(""), DELETED_THEN_GIVEN_BACK)
@example((0.0, 0.0), record(""), DELETED_BEFORE_A_WRITE)
@given(st.tuples(quarters, quarters), st.sampled_from((None, record(""))), schedules)
def test_no_replica_may_bind_while_a_post_of_another_could_be_under_way(
    offsets: tuple[float, float], found: LeaseRecord | None, schedule: list[Step]
) -> None:
    world = World(offsets, found)
    for who, action, pause in schedule:
        world.advance(pause)
        world.step(who, action)
    world.advance(100)
    world.replicas_never_bind_at_the_same_time()


@settings(max_examples=10 * settings().max_examples)
@given(st.tuples(quarters, quarters), schedules)
def test_no_replica_may_bind_while_a_late_post_of_another_could_have_an_effect(
    offsets: tuple[float, float], schedule: list[Step]
) -> None:
    """Not if the Lease is deleted. After an orderly stop the outcome of every POST is known."""
    world = World(offsets, record(""))
    for who, action, pause in schedule:
        world.advance(pause)
        if action not in ("delete", "leave"):
            world.step(who, action)
    world.advance(100)
    world.replicas_never_bind_at_the_same_time(DURATIONS.late_s)


def windows(world: World, schedule: list[Step]) -> list[tuple[int, float, float]]:
    """Life, start and end of each time in which a POST may begin."""
    for who, action, pause in schedule:
        world.advance(pause)
        world.step(who, action)
    world.advance(100)
    return world.windows


def renewals(who: int, count: int) -> list[Step]:
    return count * held_by(who, 2.0)


def test_the_simulation_lets_replicas_bind_and_hand_over() -> None:
    """Otherwise the property above would prove nothing."""
    schedule: list[Step] = [
        (0, "read", 0), (0, "write", 0), (0, "hear", 0),
        (1, "read", 3), (0, "leave", 0),
        (1, "read", 0), (1, "write", 0), (1, "hear", 0),
        (0, "read", 1), (0, "read", 15), (0, "write", 0), (0, "hear", 0), *renewals(0, 9),
    ]  # fmt: skip
    found = windows(World((0.0, 50.0), record("")), schedule)
    assert found == [(0, 0.0, 3.0), (1, 6.0, 7.0), (1, 7.0, 13.0), (2, 39.0, 40.0), (2, 40.0, 47.0)]


def test_the_simulation_lets_a_replica_bind_when_the_lease_of_a_quiet_one_has_expired() -> None:
    schedule: list[Step] = [
        (0, "rest", 0), *held_by(0, 0), (1, "read", 0), (1, "read", 15), (1, "write", 0), (1, "hear", 0),
    ]  # fmt: skip
    assert windows(World((0.0, 50.0), record("")), schedule) == [(1, 15.0, 22.0)]


def test_the_simulation_lets_a_replica_bind_that_found_no_lease() -> None:
    found = windows(World((0.0, 50.0)), renewals(0, 12))
    assert (found[0], found[-1]) == ((0, 20.0, 22.0), (0, 24.0, 31.0))
