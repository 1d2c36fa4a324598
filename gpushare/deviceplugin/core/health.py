"""Which cards are well, judged from what the driver reports. Pure: time is passed in, in seconds.

- An XID that is not an application's own mistake marks its card at once; one whose card the driver
  does not name marks every card.
- A card that does not answer as it should, or a driver that does not answer at all, marks it after
  some failures in a row.
- A marked card is well again after answering as it should for a while without a further fault. After
  an XID that needs a reset it never is: whoever has reset the card restarts the agent to say so.

Running pods are not touched by any of this: an unhealthy card takes nothing more, and that is all.
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
"""What programs bring upon themselves and the card survives: exceptions, page faults, timeouts.

The original ignores 31, 43 and 45; NVIDIA's own device plugin these six.
"""
NEED_RESET: Final = frozenset({46, 48, 62, 64, 74, 79, 95, 119, 120, 140, 143})
"""XIDs for which NVIDIA's list of XID errors asks for a reset of the card or of the machine.

Stopped engines (46, 62), memory errors that hit everybody (48, 64, 95, 140), NVLink (74), a card off
the bus (79), a dead GSP (119, 120), a failed initialisation (143).
"""


def parse_xids(text: str) -> frozenset[int]:
    """The XIDs of a comma-separated list such as ``31,43,45``; an empty text has none.

    Raises ConfigError for an entry that is no number.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    numbers = {entry: parse_small(entry) for entry in entries}
    odd = [entry for entry, number in numbers.items() if number is None]
    if odd:
        raise ConfigError(f"ignored XIDs {text!r}: {odd[0]!r} is not a number; write them as 31,43,45")
    return frozenset(number for number in numbers.values() if number is not None)


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """When a card is marked, and when it is well again.

    ``failures`` is how many looks in a row must fail; ``recovery_s`` how long all must then succeed.
    """

    ignored: frozenset[int] = IGNORED_XIDS
    failures: int = 3
    recovery_s: float = 60.0


@dataclass(frozen=True, slots=True)
class _CardState:
    """One card. ``since`` is the first good answer after the last trouble, None before one came."""

    reason: str | None = None
    failures: int = 0
    since: float | None = None
    needs_reset: bool = False


@dataclass(frozen=True, slots=True)
class Health:
    """All cards by UUID. Every method returns the health after what it is told."""

    terms: HealthPolicy = field(default_factory=HealthPolicy)
    states: Mapping[str, _CardState] = field(default_factory=dict)

    @classmethod
    def of(cls, uuids: Iterable[str], terms: HealthPolicy | None = None) -> "Health":
        """All cards well, as at the agent's start."""
        return cls(terms or HealthPolicy(), {uuid: _CardState() for uuid in uuids})

    @property
    def unhealthy(self) -> dict[str, str]:
        """The marked cards: UUID → why."""
        return {uuid: state.reason for uuid, state in self.states.items() if state.reason is not None}

    def fault(self, fault: Fault) -> "Health":
        """The driver has reported an XID. Cards that are not ours are no concern of ours."""
        if fault.xid in self.terms.ignored:
            return self
        hit = self.states if fault.uuid is None else self.states.keys() & {fault.uuid}
        marked = {uuid: _hit(self.states[uuid], fault) for uuid in hit}
        return replace(self, states={**self.states, **marked})

    def look(self, ailing: Mapping[str, str], now: float) -> "Health":
        """Every card was asked; those that did not answer as they should are named with the reason."""
        looked = {
            uuid: _failed(state, ailing[uuid], self.terms)
            if uuid in ailing
            else _answered(state, now, self.terms)
            for uuid, state in self.states.items()
        }
        return replace(self, states=looked)

    def silence(self, reason: str, now: float) -> "Health":
        """The driver as a whole did not answer."""
        return self.look(dict.fromkeys(self.states, reason), now)


def _hit(state: _CardState, fault: Fault) -> _CardState:
    needs_reset = fault.xid in NEED_RESET
    told = f"XID {fault.xid}" + ("" if fault.uuid else " on a card that the driver does not name")
    if needs_reset:
        told += "; it needs a reset, and then a restart of the agent"
    graver = needs_reset and not state.needs_reset
    reason = told if state.reason is None or graver else state.reason
    return replace(state, reason=reason, since=None, needs_reset=state.needs_reset or needs_reset)


def _failed(state: _CardState, reason: str, terms: HealthPolicy) -> _CardState:
    failures = state.failures + 1
    marked = state.reason or (reason if failures >= terms.failures else None)
    return replace(state, reason=marked, failures=failures, since=None)


def _answered(state: _CardState, now: float, terms: HealthPolicy) -> _CardState:
    if state.reason is None or state.needs_reset:
        return replace(state, failures=0)
    since = now if state.since is None else state.since
    if now - since >= terms.recovery_s:
        return _CardState()
    return replace(state, since=since)


class HealthChange(NamedTuple):
    """A card that became well or unwell. ``reason`` is why it is, or was, unwell."""

    uuid: str
    healthy: bool
    reason: str


def health_changes(before: Health, after: Health) -> tuple[HealthChange, ...]:
    """What to tell: cards that were marked, marked for a graver reason, or are well again."""
    was, now = before.unhealthy, after.unhealthy
    marked = (
        HealthChange(uuid, healthy=False, reason=reason)
        for uuid, reason in now.items()
        if was.get(uuid) != reason
    )
    well = (
        HealthChange(uuid, healthy=True, reason=reason)
        for uuid, reason in was.items()
        if uuid in after.states and uuid not in now
    )
    return (*marked, *well)


class Cordon(NamedTuple):
    """The cards that people keep free, and what is wrong with how they said it."""

    cards: frozenset[int]
    problem: str | None = None


def cordon(text: str | None, known: Iterable[int]) -> Cordon:
    """The node annotation ``gpushare.io/cordoned-cards``, ``0,2``. An odd entry cordons nothing."""
    named, junk = parse_indices(text or "")
    cards = named.intersection(known)
    odd = [f"{entry!r} is no card index" for entry in junk]
    odd += [f"this node shares no card {index}" for index in sorted(named - cards)]
    problem = f"annotation {ANN_CORDONED_CARDS}: {', '.join(odd)}; write 0,2" if odd else None
    return Cordon(cards, problem)
