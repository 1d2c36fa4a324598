"""Leader election as pure functions; ``leadership`` performs the actions.

Times are monotonic seconds of this machine, which count the time in which it was suspended. A Lease that did
not change for its duration, by the local clock, may be taken. The holder considers its Lease expired
``renew_deadline_s`` after the start of its last successful renewal, which is before another replica may take
it.
"""

from dataclasses import dataclass
from enum import StrEnum

from gpushare.model.changes import is_older
from gpushare.ports import LeaseRecord


@dataclass(frozen=True, slots=True)
class LeaseDurations:
    """Durations in seconds: retry < renew deadline < lease.

    A bind POST takes at most ``post_s``, and can have an effect until ``api_request_s`` after its start,
    whatever delays it: a frozen API server, a proxy, the kernel of a replica that was killed.
    """

    lease_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0
    post_s: float = 3.0
    api_request_s: float = 20.0

    @property
    def take_over_s(self) -> float:
        """The wait before the first bind if it is unknown whether another replica binds.

        It covers a POST in time, but not one that is late: that would need a third fault beside the missing
        Lease and the end of its holder.
        """
        return self.lease_s + self.post_s

    @property
    def late_s(self) -> float:
        """The time after its start in which a POST may have an effect."""
        return max(self.api_request_s, 2 * self.post_s)


@dataclass(frozen=True, slots=True)
class Replica:
    """A participant of the election: its unique name, and ``host:port`` where others reach it."""

    identity: str
    address: str


@dataclass(frozen=True, slots=True)
class LeaseObservation:
    """A reading of the Lease, and when this content was first observed."""

    record: LeaseRecord | None
    since: float


class LeaseAction(StrEnum):
    """The next action on the Lease."""

    RENEW = "renew"
    TAKE = "take"
    FOLLOW = "follow"


def observe(before: LeaseObservation | None, record: LeaseRecord | None, now: float) -> LeaseObservation:
    """The new observation; unchanged content keeps its time."""
    if before is not None and before.record == record:
        return before
    return LeaseObservation(record, now)


def decide(observation: LeaseObservation, identity: str, now: float) -> LeaseAction:
    """The next action of this replica."""
    record = observation.record
    if record is not None and record.holder == identity:
        return LeaseAction.RENEW
    if record is None or not record.holder or now >= observation.since + record.duration_s:
        return LeaseAction.TAKE
    return LeaseAction.FOLLOW


def released(record: LeaseRecord | None) -> bool:
    """Whether the last holder released the Lease, which proves that none of its binds is in progress.

    A Lease that was never held was created by hand or by a manifest, and proves nothing.
    """
    return record is not None and not record.holder and record.transitions > 0


def recreated(before: LeaseRecord | None, after: LeaseRecord) -> bool:
    """Whether the Lease was deleted and created again, perhaps by this replica.

    The API server creates a Lease when it is asked to replace one that does not exist.
    """
    return before is None or before.uid != after.uid


def restored(before: LeaseRecord, after: LeaseRecord) -> bool:
    """Whether the API server returns an earlier state of the same Lease: it was restored from a backup."""
    return before.uid == after.uid and is_older(after.version, before.version)


def binds_from(observation: LeaseObservation, durations: LeaseDurations, now: float) -> float:
    """The earliest time at which a new holder may bind.

    If the last holder stopped renewing, its POSTs must have ended. A quiet one had none, and its lease has
    expired; another may have begun one until the end of its lease. Only a released Lease needs no wait. An
    absent Lease proves nothing: it may have been deleted while it was held, or another replica may bind
    without one.
    """
    record = observation.record
    if released(record):
        return now
    if record is None or not record.holder:
        return now + durations.take_over_s
    expired = observation.since + record.duration_s
    return max(now, expired if record.quiet else expired - durations.post_s + durations.late_s)


def wait_cause(record: LeaseRecord | None) -> str:
    """Why a new holder waits before its first bind, after it has taken this Lease."""
    if released(record):
        return "it lists pods and nodes again"
    if record is None:
        return "there was no Lease, so that another one may still bind"
    if not record.holder:
        return "the Lease had no holder, so that another one may still bind"
    return f"the last binds of {record.holder}, which held the Lease, may still arrive"


def unchanged_since_release(first: LeaseObservation | None, taken: LeaseObservation) -> bool:
    """Whether no replica can have bound between the first observation and ours before taking the Lease.

    True if the Lease was released at the first observation and is unchanged at the second, because taking it
    changes its version. A Lease that was absent at both may have existed in between.
    """
    return first is not None and first.record == taken.record and released(taken.record)


def binds_until(renewal_began: float, durations: LeaseDurations) -> float:
    """The time until which a POST may start, so that it ends before the renewal deadline."""
    return renewal_began + durations.renew_deadline_s - durations.post_s
