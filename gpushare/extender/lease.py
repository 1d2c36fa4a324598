"""Leader election as decisions on values; ``leadership`` performs them.

Times are monotonic seconds of this process. The rules: a lease that did not change for its own
duration, as seen by our clock, may be taken; what we hold lapses, for us, ``renew_deadline_s``
after the start of the last renewal that succeeded, which is before anybody else may take it.
"""

from dataclasses import dataclass
from enum import StrEnum

from gpushare.ports import LeaseRecord


@dataclass(frozen=True, slots=True)
class LeaseDurations:
    """Durations in seconds: retry < renew deadline < lease; a bind POST takes at most ``post_s``."""

    lease_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0
    post_s: float = 3.0

    @property
    def take_over_s(self) -> float:
        """How long to wait before the first bind where nothing is known of who else could be binding."""
        return self.lease_s + self.post_s


@dataclass(frozen=True, slots=True)
class Observation:
    """A reading of the Lease, and when this content was first seen."""

    record: LeaseRecord | None
    since: float


class LeaseAction(StrEnum):
    """What to do about the Lease now."""

    CREATE = "create"
    RENEW = "renew"
    TAKE = "take"
    FOLLOW = "follow"


def observe(before: Observation | None, record: LeaseRecord | None, now: float) -> Observation:
    """The new sight: content that did not change keeps the time when it was first seen."""
    if before is not None and before.record == record:
        return before
    return Observation(record, now)


def decide(observation: Observation, identity: str, now: float) -> LeaseAction:
    """What this replica does about what it sees."""
    record = observation.record
    if record is None:
        return LeaseAction.CREATE
    if record.holder == identity:
        return LeaseAction.RENEW
    if not record.holder or now >= observation.since + record.duration_s:
        return LeaseAction.TAKE
    return LeaseAction.FOLLOW


def released(record: LeaseRecord | None) -> bool:
    """Whether its last holder has said that no bind of its own is under way.

    A Lease that nobody has held yet was made by hand or by a manifest, and says no more than none.
    """
    return record is not None and not record.holder and record.transitions > 0


def recreated(before: LeaseRecord | None, after: LeaseRecord) -> bool:
    """Whether it is another Lease than before: then that one was deleted, and we may have made this one.

    The API server creates a Lease that it is told to replace and does not have.
    """
    return before is None or before.uid != after.uid


def binds_from(observation: Observation, durations: LeaseDurations, now: float) -> float:
    """When a new holder may bind at the earliest.

    After a holder that fell silent, its last POST must have ended: its lease, then a POST's time,
    after its last sign of life. Only a Lease that was given back needs no wait. One that is absent
    says nothing: it may have been deleted under a holder, or somebody may bind without one.
    """
    record = observation.record
    if released(record):
        return now
    if record is None or not record.holder:
        return now + durations.take_over_s
    return max(now, observation.since + record.duration_s + durations.post_s)


def may_bind_without_lease(observation: Observation | None, *, allowed: bool) -> bool:
    """Whether a replica to which the API server refuses the Lease may bind without one.

    Only by choice, and only where it has never read the Lease: whoever has takes part in the election.
    """
    return allowed and observation is None


def unchanged_since_release(first: Observation | None, taken: Observation) -> bool:
    """Whether nobody can have bound between the two sights of the Lease, the second taken over by us.

    True where it was given back at the first and is unchanged at the second: who takes it changes its
    version. A Lease that was absent at both may have been there in between.
    """
    return first is not None and first.record == taken.record and released(taken.record)


def binds_until(renewal_began: float, durations: LeaseDurations) -> float:
    """Until when a POST may *begin*: it must end before the renewal's deadline."""
    return renewal_began + durations.renew_deadline_s - durations.post_s
