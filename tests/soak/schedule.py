"""The actions of a soak, decided by its seed. Pure: the same seed and duration give the same schedule.

What belongs here: which actions happen, and when. What does not: carrying them out.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.soak import actions as a
from tests.soak.actions import Action, Shape, Verb

CI_SEED: Final = 15
CI_MINUTES: Final = 2.0
"""The run in CI, which has faults of each program of a node with its own kernel, and a reboot."""
ROUND_S: Final = 30.0
"""Longest load between two checks."""
_CALM_S: Final = 3.0
"""At the start of each round: pods without faults."""
_SHORTEST_S: Final = 0.2
_MOST_AT_ONCE: Final = 3
_PAUSES_S: Final = {"pod": (0.1, 0.8), "fault": (0.5, 4.0)}
_MOST_LOAD: Final = 1.15
"""Units of all pods, as a share of the capacity: some pods wait for the units of others."""
_GROWTH: Final = 0.9
"""Share of creations below that load, and of the ends of pods above it."""
_GRACE_S: Final = (0, 1, 1, 2)
_SHAPES: Final = (
    *(Shape((units,)) for units in (1, 1, 2, 2, 3, 4, 4, 5, 6, 8, 10, a.SIZE)),
    *(Shape(units) for units in ((2, 3), (4, 4), (1, 5), (1, 2, 3))),
    *(Shape(units, 2) for units in ((8,), (4, 8), (2 * a.SIZE,))),
)


@dataclass(frozen=True)
class _Fault:
    """A kind of fault: what it hits, how long it lasts, its possible values, and how often it is chosen."""

    verb: Verb
    targets: tuple[str, ...]
    longest_s: float = 0
    values: tuple[float, ...] = (0,)
    weight: float = 1


_EXTENDER_LINKS: Final = tuple(each for each in a.LINKS if "extender" in each)
_FAULTS: Final = (
    _Fault(Verb.KILL, a.EXTENDERS, 8),
    _Fault(Verb.STOP, a.EXTENDERS, 4),
    _Fault(Verb.FREEZE, a.EXTENDERS, 12),
    _Fault(Verb.KILL, a.AGENTS, 8),
    _Fault(Verb.FREEZE, a.AGENTS, 8),
    _Fault(Verb.KILL, a.KUBELETS, 6),
    _Fault(Verb.FREEZE, a.KUBELETS, 6),
    _Fault(Verb.KILL, a.RUNTIMES, 3),
    _Fault(Verb.STOP, (a.API_SERVER,), 8),
    # Together with a bind that a proxy delays or holds, less than the API request timeout of the extenders.
    _Fault(Verb.FREEZE, (a.API_SERVER,), 5),
    _Fault(Verb.KILL, (a.SCHEDULER,), 3),
    _Fault(Verb.REFUSE, a.LINKS, 8, (0.3, 0.7, 1)),
    _Fault(Verb.CUT, a.LINKS, 5),
    _Fault(Verb.HOLD_WATCHES, a.LINKS, 6),
    _Fault(Verb.LOSE_ANSWERS, _EXTENDER_LINKS, 6),
    _Fault(Verb.DELAY_BINDS, _EXTENDER_LINKS, 6, (0.5, 1, 2)),
    _Fault(Verb.DROP_WATCHES, a.LINKS),
    _Fault(Verb.STEP_CLOCK, a.CLOCKS, 15, (-24, -1, 1, 24)),
    _Fault(Verb.DELETE_NODE, tuple(a.NODES), 6),
    # It takes longer than a round.
    _Fault(Verb.REBOOT, tuple(a.OWN_KERNEL), weight=0.2),
)


def schedule(seed: int, minutes: float) -> tuple[Action, ...]:
    """Return the actions for so many minutes of load, in order; each round ends with a check.

    At a check no fault is active. Raises ValueError for a duration under a tenth of a minute.
    """
    if minutes < 0.1:
        raise ValueError(f"a soak of {minutes:g} minutes is too short: use at least 0.1")
    end_s = minutes * 60
    rounds = max(1, round(end_s / ROUND_S))
    bounds = [end_s * each / rounds for each in range(rounds + 1)]
    pods = _Pods(random.Random(f"pods {seed}"))
    faults = random.Random(f"faults {seed}")
    found: list[Action] = []
    for begin_s, until_s in itertools.pairwise(bounds):
        load = [*pods.round(begin_s, until_s), *_faults(faults, begin_s + _CALM_S, until_s)]
        found += sorted(load, key=lambda each: each.at_s)
        found.append(Action(until_s, Verb.CHECK, "all"))
    return tuple(found)


@dataclass
class _Pods:
    """Creates, finishes and deletes pods; ``living`` are those that have units or want them."""

    dice: random.Random
    living: dict[str, Shape] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)
    count: int = 0

    def round(self, now_s: float, until_s: float) -> Iterator[Action]:
        """Yield the actions of a round."""
        while (now_s := now_s + self.dice.uniform(*_PAUSES_S["pod"])) < until_s:
            yield self._next(now_s)

    def _next(self, at_s: float) -> Action:
        load = sum(each.units for each in self.living.values()) / a.CAPACITY
        if not self.living or self.dice.random() < (_GROWTH if load < _MOST_LOAD else 1 - _GROWTH):
            return self._create(at_s)
        if self.finished and self.dice.random() < 0.5:
            return self._delete(at_s, self.finished.pop(0))
        name = self.dice.choice(list(self.living))
        del self.living[name]
        if self.dice.random() < 0.3:
            self.finished.append(name)
            return Action(at_s, Verb.FINISH, name)
        return self._delete(at_s, name)

    def _create(self, at_s: float) -> Action:
        self.count += 1
        name, shape = f"pod-{self.count}", self.dice.choice(_SHAPES)
        self.living[name] = shape
        return Action(at_s, Verb.CREATE, name, shape)

    def _delete(self, at_s: float, name: str) -> Action:
        return Action(at_s, Verb.DELETE, name, value=self.dice.choice(_GRACE_S))


def _faults(dice: random.Random, now_s: float, until_s: float) -> Iterator[Action]:
    """Yield faults and their ends: at most one at a time on each target, and few at once."""
    busy: dict[str, float] = {}
    while (now_s := now_s + dice.uniform(*_PAUSES_S["fault"])) < until_s:
        busy = {target: end_s for target, end_s in busy.items() if end_s >= now_s}
        (kind,) = dice.choices(_FAULTS, [each.weight for each in _FAULTS])
        target, value = dice.choice(kind.targets), dice.choice(kind.values)
        end_s = min(now_s + dice.uniform(_SHORTEST_S, max(_SHORTEST_S, kind.longest_s)), until_s)
        if target in busy or len(busy) >= _MOST_AT_ONCE:
            continue
        yield Action(now_s, kind.verb, target, value=value)
        if kind.verb in a.ENDS:
            busy[target] = end_s
            yield Action(end_s, a.ENDS[kind.verb], target)
