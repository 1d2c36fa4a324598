"""The health of GPUs, derived from the driver's reports. Pure: times are arguments, in seconds.

- An XID that is not an application error marks its GPU unhealthy at once. If the driver does not name the
  GPU, all GPUs are marked.
- A failed poll of a GPU, or of the driver as a whole, marks it after several failures in a row.
- A GPU that a later inventory shows to be unfit for sharing, for example in MIG mode, is unhealthy until an
  inventory shows otherwise.
- A marked GPU is healthy again after a period of successful polls without a further fault. After an XID
  that needs a reset it stays unhealthy until the agent is restarted, which the administrator does after
  the reset.

An unhealthy GPU takes no more pods; its running pods continue.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from gpushare.contract import ANN_CORDONED_CARDS
from gpushare.errors import ConfigError
from gpushare.model.cards import parse_indices
from gpushare.model.hardware import Fault
from gpushare.model.quantity import parse_small

IGNORED_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Application errors that leave the GPU usable: exceptions, page faults, timeouts.

The Aliyun plugin ignores 31, 43 and 45, NVIDIA's device plugin these six.
"""
NEED_RESET: Final = frozenset({46, 48, 62, 64, 74, 79, 95, 119, 120, 140, 143, 154})
"""XIDs for which NVIDIA's list of XID errors requires a reset of the GPU or of the machine.

Stopped engines (46, 62), uncontained memory errors (48, 64, 95, 140), NVLink (74), a GPU off the bus (79),
a failed GSP (119, 120), a failed initialisation (143), a changed recovery action (154), with which the driver
asks for a reset or a reboot.
"""


def parse_xids(text: str) -> frozenset[int]:
    """The XIDs in a comma-separated list such as ``31,43,45``; empty for an empty text.

    Raises ConfigError for an entry that is not a number.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    numbers = {entry: parse_small(entry) for entry in entries}
    invalid = [entry for entry, number in numbers.items() if number is None]
    if invalid:
        raise ConfigError(f"ignored XIDs {text!r}: {invalid[0]!r} is not a number; write them as 31,43,45")
    return frozenset(number for number in numbers.values() if number is not None)


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """When a GPU becomes unhealthy, and when it is healthy again.

    ``ignored`` are XIDs without effect. ``failures`` is the number of failed polls in a row that mark a GPU,
    and ``recovery_s`` the time in seconds for which all polls must then succeed.
    """

    ignored: frozenset[int] = IGNORED_XIDS
    failures: int = 3
    recovery_s: float = 60.0


@dataclass(frozen=True, slots=True)
class _CardState:
    """One GPU. ``since`` is the time of the first successful poll after the last problem, None before it."""

    reason: str | None = None
    failures: int = 0
    since: float | None = None
    needs_reset: bool = False


@dataclass(frozen=True, slots=True)
class Health:
    """The health of all GPUs by UUID. Immutable: methods return the new health.

    ``unfit`` are GPUs that cannot be shared according to the last inventory, with the reason.
    """

    policy: HealthPolicy = field(default_factory=HealthPolicy)
    states: Mapping[str, _CardState] = field(default_factory=dict)
    unfit: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, uuids: Iterable[str], policy: HealthPolicy | None = None) -> "Health":
        """All GPUs healthy, as at the start of the agent."""
        return cls(policy or HealthPolicy(), {uuid: _CardState() for uuid in uuids})

    @property
    def unhealthy(self) -> dict[str, str]:
        """The unhealthy GPUs: UUID → reason."""
        failed = {uuid: state.reason for uuid, state in self.states.items() if state.reason is not None}
        return {**self.unfit, **failed}

    def after_inventory(self, uuids: Iterable[str], unfit: Mapping[str, str]) -> "Health":
        """The health after an inventory with these GPUs, of which ``unfit`` cannot be shared."""
        states = {uuid: self.states.get(uuid, _CardState()) for uuid in uuids}
        return replace(self, states=states, unfit=unfit)

    def after_fault(self, fault: Fault) -> "Health":
        """The health after an XID. One of an unknown GPU has no effect."""
        if fault.xid in self.policy.ignored:
            return self
        hit = self.states if fault.uuid is None else self.states.keys() & {fault.uuid}
        marked = {uuid: _hit(self.states[uuid], fault) for uuid in hit}
        return replace(self, states={**self.states, **marked})

    def after_poll(self, failing: Mapping[str, str], now: float) -> "Health":
        """The health after a poll of every GPU at ``now``; ``failing`` maps failed GPUs to the reason."""
        states = {
            uuid: _failed(state, failing[uuid], self.policy)
            if uuid in failing
            else _answered(state, now, self.policy)
            for uuid, state in self.states.items()
        }
        return replace(self, states=states)

    def after_silence(self, reason: str, now: float) -> "Health":
        """The health after a poll at ``now`` to which the driver did not respond."""
        return self.after_poll(dict.fromkeys(self.states, reason), now)


def _hit(state: _CardState, fault: Fault) -> _CardState:
    needs_reset = fault.xid in NEED_RESET
    text = f"XID {fault.xid}" + ("" if fault.uuid else " on a GPU that the driver does not name")
    if needs_reset:
        text += "; it needs a reset, and then a restart of the agent"
    more_serious = needs_reset and not state.needs_reset
    reason = text if state.reason is None or more_serious else state.reason
    return replace(state, reason=reason, since=None, needs_reset=state.needs_reset or needs_reset)


def _failed(state: _CardState, reason: str, policy: HealthPolicy) -> _CardState:
    failures = state.failures + 1
    marked = state.reason or (reason if failures >= policy.failures else None)
    return replace(state, reason=marked, failures=failures, since=None)


def _answered(state: _CardState, now: float, policy: HealthPolicy) -> _CardState:
    if state.reason is None or state.needs_reset:
        return replace(state, failures=0)
    since = now if state.since is None else state.since
    if now - since >= policy.recovery_s:
        return _CardState()
    return replace(state, since=since)


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
        if uuid in after.states and uuid not in now
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
