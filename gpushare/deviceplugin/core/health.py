"""The health of GPUs over time, derived from the driver's reports. Pure: times are arguments, in seconds.

The rules by which a GPU takes no pods are in ``health_rules``. Here is what changes the condition that they
read:

- A poll brings the facts. It has failed for good after several failures in a row, or if it is the first of
  the GPU; the failure is over after a period of polls that all succeeded.
- An XID error is kept until the driver asks for no recovery action. A driver without recovery actions never
  says so: its XID errors are kept until the driver is loaded again, across restarts of the agent.
- A GPU that a later inventory shows to be unfit for sharing, for example in MIG mode, is unhealthy until an
  inventory shows otherwise.

An unhealthy GPU takes no more pods; its running pods continue.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from gpushare.contract import ANN_CORDONED_CARDS
from gpushare.deviceplugin.core.health_rules import (
    GpuCondition,
    HealthVerdict,
    needs_reset_by_xid,
    verdict_on,
)
from gpushare.deviceplugin.core.xids import RECOVERY_ACTION_CHANGED, RESET_XIDS
from gpushare.model.cards import parse_indices
from gpushare.model.hardware import Fault, GpuFacts, RecoveryAction

UNFIT: Final = "unfit"
"""The rule of GPUs that cannot be shared according to the last inventory, in metrics."""


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """When a GPU becomes unhealthy, and when it is healthy again.

    ``ignored`` are XIDs without effect. ``failures`` is the number of failed polls in a row that mark a GPU,
    and ``recovery_s`` the time in seconds for which all polls must then succeed.
    """

    ignored: frozenset[int] = frozenset()
    failures: int = 3
    recovery_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Health:
    """The health of all GPUs by UUID. Immutable: methods return the new health.

    ``unfit`` are GPUs that cannot be shared according to the last inventory, with the reason.
    """

    policy: HealthPolicy = field(default_factory=HealthPolicy)
    conditions: Mapping[str, GpuCondition] = field(default_factory=dict)
    unfit: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, uuids: Iterable[str], policy: HealthPolicy | None = None, xids: Mapping[str, int] | None = None
    ) -> "Health":
        """The GPUs at the start of the agent.

        ``xids`` are those of its record, by UUID, also of GPUs that the driver does not report now.
        """
        recorded = {uuid: GpuCondition(fault=Fault(uuid, xid)) for uuid, xid in (xids or {}).items()}
        return cls(policy or HealthPolicy(), {uuid: GpuCondition() for uuid in uuids} | recorded)

    @property
    def verdicts(self) -> dict[str, HealthVerdict]:
        """The unhealthy GPUs: UUID → rule and reason."""
        unfit = {uuid: HealthVerdict(UNFIT, reason) for uuid, reason in self.unfit.items()}
        judged = {uuid: verdict_on(condition) for uuid, condition in self.conditions.items()}
        return unfit | {uuid: verdict for uuid, verdict in judged.items() if verdict}

    @property
    def unhealthy(self) -> dict[str, str]:
        """The unhealthy GPUs: UUID → reason."""
        return {uuid: verdict.reason for uuid, verdict in self.verdicts.items()}

    @property
    def reset_xids(self) -> dict[str, int]:
        """The XID errors that close GPUs, to be recorded: UUID → XID."""
        return {
            uuid: condition.fault.xid
            for uuid, condition in self.conditions.items()
            if needs_reset_by_xid(condition) and condition.fault and condition.fault.xid is not None
        }

    def after_inventory(self, uuids: Iterable[str], unfit: Mapping[str, str]) -> "Health":
        """The health after an inventory with these GPUs, of which ``unfit`` cannot be shared.

        A GPU off the bus may come back without a reset, so its XID is kept.
        """
        kept = dict.fromkeys([*uuids, *self.reset_xids])
        conditions = {uuid: self.conditions.get(uuid, GpuCondition()) for uuid in kept}
        return replace(self, conditions=conditions, unfit=unfit)

    def after_fault(self, fault: Fault) -> "Health":
        """The health after an XID. One of an unknown GPU has no effect."""
        if fault.xid in {None, RECOVERY_ACTION_CHANGED, *self.policy.ignored}:
            return self
        hit = self.conditions if fault.uuid is None else self.conditions.keys() & {fault.uuid}
        noted = {uuid: _noted(self.conditions[uuid], fault) for uuid in hit}
        return replace(self, conditions={**self.conditions, **noted})

    def after_driver_start(self) -> "Health":
        """The health after the driver was loaded again, which initialises all GPUs."""
        conditions = {uuid: replace(each, fault=None) for uuid, each in self.conditions.items()}
        return replace(self, conditions=conditions)

    def after_poll(self, facts: Mapping[str, GpuFacts], now: float) -> "Health":
        """The health after a poll of every GPU at ``now``. One without facts was not polled."""
        conditions = {
            uuid: _polled(condition, facts[uuid], now, self.policy) if uuid in facts else condition
            for uuid, condition in self.conditions.items()
        }
        return replace(self, conditions=conditions)

    def after_failed_poll(self, reason: str, now: float) -> "Health":
        """The health after a poll at ``now`` to which the driver did not respond."""
        return self.after_poll(dict.fromkeys(self.conditions, GpuFacts(failure=reason)), now)


def _noted(condition: GpuCondition, fault: Fault) -> GpuCondition:
    """A later XID is usually a consequence of the first, so it replaces none that is as serious."""
    before = condition.fault
    is_more_serious = before is None or (fault.xid in RESET_XIDS and before.xid not in RESET_XIDS)
    return replace(condition, fault=fault) if is_more_serious else condition


def _polled(condition: GpuCondition, facts: GpuFacts, now: float, policy: HealthPolicy) -> GpuCondition:
    if facts.failure is not None:
        return _failed(condition, facts.failure, policy)
    decided = facts.recovery == RecoveryAction.NONE
    answered = replace(condition, facts=facts, failures=0, fault=None if decided else condition.fault)
    if condition.unanswered is None:
        return answered
    since = now if condition.since is None else condition.since
    if now - since >= policy.recovery_s:
        return replace(answered, unanswered=None, since=None)
    return replace(answered, since=since)


def _failed(condition: GpuCondition, failure: str, policy: HealthPolicy) -> GpuCondition:
    failures = condition.failures + 1
    lasts = failures >= policy.failures or condition.facts is None
    unanswered = condition.unanswered or (failure if lasts else None)
    return replace(condition, failures=failures, unanswered=unanswered, since=None)


class HealthChange(NamedTuple):
    """A GPU whose health changed. ``reason`` is why it is, or was, unhealthy."""

    uuid: str
    healthy: bool
    reason: str


def health_changes(before: Health, after: Health) -> tuple[HealthChange, ...]:
    """The changes to report: GPUs that became unhealthy, have a new reason, or are healthy again."""
    was, now = before.unhealthy, after.unhealthy
    marked = (
        HealthChange(uuid, healthy=False, reason=reason)
        for uuid, reason in now.items()
        if was.get(uuid) != reason
    )
    recovered = (
        HealthChange(uuid, healthy=True, reason=reason)
        for uuid, reason in was.items()
        if uuid in after.conditions and uuid not in now
    )
    return (*marked, *recovered)


class Cordon(NamedTuple):
    """The GPUs that an administrator cordoned, and the problem with the annotation, None without one."""

    cards: frozenset[int]
    problem: str | None = None


def cordon(text: str | None, known: Iterable[int]) -> Cordon:
    """Parse the node annotation ``gpushare.io/cordoned-cards``, ``0,2``. An invalid entry has no effect."""
    named, unparsed = parse_indices(text or "")
    cards = named.intersection(known)
    invalid = [f"{entry!r} is not a GPU index" for entry in unparsed]
    invalid += [f"this node shares no GPU {index}" for index in sorted(named - cards)]
    problem = f"annotation {ANN_CORDONED_CARDS}: {', '.join(invalid)}; write 0,2" if invalid else None
    return Cordon(cards, problem)
