"""The places of pod groups between the filter of their members and their first bind.

kube-scheduler asks filter for one member after the other in a cycle of the group, and binds only after all of
them. A plan has the places of one such cycle. It reserves nothing: other pods may take a place, and then the
first bind refuses the whole group.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpushare.contract import REASON_GROUP
from gpushare.model.demand import Demand, Malformed
from gpushare.model.objects import Pod
from gpushare.scheduling.events import Reserved
from gpushare.scheduling.filtering import FilterOutcome, filter_nodes, filter_steps
from gpushare.scheduling.fitting import PodRequest
from gpushare.scheduling.groups import MemberPlace, plan_steps, reservations_of, with_places
from gpushare.scheduling.ledger import Ledger

LIFE_S: Final = 30.0
"""How long the answer of filter for a member counts."""

_Places = dict[str, MemberPlace]


@dataclass(slots=True)
class _Plan:
    """``ahead`` are places of all known members, empty if they do not all fit; ``answers`` those of filter.

    ``asked`` are the members of this cycle, in order.
    """

    ahead: _Places = field(default_factory=dict)
    answers: _Places = field(default_factory=dict)
    until: dict[str, float] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def in_new_cycle(self, uid: str) -> bool:
        """Whether filter of this member begins a new cycle.

        About a nominated pod the scheduler asks twice in a row: for the node of the nomination, then for all.
        """
        return not self.asked or (uid in self.asked and uid != self.asked[-1])

    def answered(self, but: str) -> _Places:
        """The answers of this cycle for other members."""
        return {uid: self.answers[uid] for uid in self.asked if uid != but and uid in self.answers}

    def note(self, uid: str, place: MemberPlace | None, until: float) -> None:
        """The answer of filter for a member."""
        if uid not in self.asked:
            self.asked.append(uid)
        if place is None:
            self.forget(uid)
            # The scheduler may let some members run without the others.
            self.ahead = {}
        else:
            # At the end, so that the answers are in the order of the requests.
            self.answers.pop(uid, None)
            self.answers[uid], self.until[uid] = place, until

    def forget(self, uid: str) -> None:
        """The member has no place."""
        for each in (self.ahead, self.answers, self.until):
            each.pop(uid, None)


class GroupPlans:
    """The members of all groups, and the plans of those that wait."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._plans: dict[str, _Plan] = {}
        self._members: dict[str, dict[str, Pod]] = {}
        self._groups: dict[str, str] = {}

    def see(self, pod: Pod) -> None:
        """The API has this pod."""
        if pod.group:
            self._groups[pod.uid] = _key(pod)
            self._members.setdefault(_key(pod), {})[pod.uid] = pod

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        key = self._groups.pop(uid, None)
        if key is None:
            return
        self._members[key].pop(uid)
        if key in self._plans:
            self._plans[key].forget(uid)
        if not self._members[key]:
            del self._members[key]
            self._plans.pop(key, None)

    def begun(self, pod: Pod, ledger: Ledger) -> bool:
        """Whether a member with units has a node already: the group is past its first bind."""
        members = self._members.get(_key(pod), {}).values()
        return any(_has_units(each) and not _waits(each, ledger) for each in members)

    def filter_steps(
        self, pod: Pod, demand: Demand, names: Sequence[str], ledger: Ledger
    ) -> Generator[None, None, FilterOutcome]:
        """At most one node passes, which is then the place of the member."""
        plan = self._live(pod)
        if plan.in_new_cycle(pod.uid):
            plan.asked = []
            pending = {**self._pending(pod, ledger), pod.uid: pod}
            plan.ahead = (yield from plan_steps(ledger, pending.values(), names)) or {}
        outcome = FilterOutcome()
        request = PodRequest(pod.uid, demand, pod.priority, pod.placement)
        if ahead := _planned(plan, pod.uid, names, ledger):
            outcome.passed.append(ahead)
        else:
            for view in _views(plan, pod.uid, ledger):
                outcome = yield from filter_steps(view, request, names, 1)
                if outcome.passed:
                    break
        place = MemberPlace(pod, demand, outcome.passed[0]) if outcome.passed else None
        if place is None:
            _explain(outcome, request, {each.node for each in plan.answered(pod.uid).values()}, ledger)
        plan.note(pod.uid, place, self._now() + LIFE_S)
        return outcome

    def take(self, pod: Pod, node: str, ledger: Ledger) -> tuple[Reserved, ...] | None:
        """The reservations of the whole group at the first bind of a member; None if they do not all fit.

        Empty without an answer of filter for this member and node. The plan ends, so that the other binds of
        its cycle are refused too if this one is.
        """
        plan = self._live(pod)
        mine = plan.answers.get(pod.uid)
        if mine is None or mine.node != node:
            return ()
        del self._plans[_key(pod)]
        # Pods as the API has them: a client of the port could ask filter about others.
        pending = {**self._pending(pod, ledger), pod.uid: pod}
        places = [
            MemberPlace(pending[uid], demand, answer.node)
            for uid, answer in plan.answers.items()
            if uid in pending and not isinstance(demand := pending[uid].demand, Malformed)
        ]
        return reservations_of(ledger, places)

    def _pending(self, pod: Pod, ledger: Ledger) -> dict[str, Pod]:
        members = self._members.get(_key(pod), {})
        return {uid: each for uid, each in members.items() if each.is_considered and _waits(each, ledger)}

    def _live(self, pod: Pod) -> _Plan:
        """The plan of the pod's group, without answers that are too old."""
        now = self._now()
        for key, plan in list(self._plans.items()):
            for uid in [uid for uid, until in plan.until.items() if until < now]:
                plan.forget(uid)
            if not plan.answers and key != _key(pod):
                del self._plans[key]
        return self._plans.setdefault(_key(pod), _Plan())


def _planned(plan: _Plan, uid: str, names: Sequence[str], ledger: Ledger) -> str | None:
    """The node of the member in the plan ahead, if it is allowed and all places still fit together."""
    mine = plan.ahead.get(uid)
    if mine is None or mine.node not in names:
        return None
    places = {**plan.ahead, **plan.answered(uid)}
    return mine.node if reservations_of(ledger, places.values()) else None


def _views(plan: _Plan, uid: str, ledger: Ledger) -> Iterator[Ledger]:
    """The ledgers on which a member may find its place, the best first."""
    answered = plan.answered(uid)
    ahead = {each: place for each, place in {**plan.ahead, **answered}.items() if each != uid}
    view = with_places(ledger, ahead.values()) if plan.ahead else None
    if view:
        yield view
    # If the answers no longer fit, the first bind refuses the group.
    yield with_places(ledger, answered.values()) or ledger


def _explain(outcome: FilterOutcome, request: PodRequest, planned: set[str], ledger: Ledger) -> None:
    """Name the group where the member would fit without the others."""
    some = [name for name in outcome.failed if name in planned]
    for name in filter_nodes(ledger, request, some).passed:
        outcome.failed[name] += REASON_GROUP


def _has_units(pod: Pod) -> bool:
    return isinstance(pod.demand, Malformed) or not pod.demand.empty


def _waits(pod: Pod, ledger: Ledger) -> bool:
    return pod.node is None and ledger.reservation(pod.uid) is None


def _key(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.group}"
