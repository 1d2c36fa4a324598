"""Preempt: the pods of a node to evict so that a pod of higher priority fits on a GPU.

kube-scheduler selects victims by node totals and does not know GPUs: evicting them may free units on
different GPUs, to no avail. All of its victims are kept, because it may need any of them for another resource
(CPU, memory, a port). The pods with the lowest cost are added until the pod fits on a GPU.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from gpushare.model.demand import Amount, Demand
from gpushare.model.disruption import DisruptionBudget
from gpushare.model.objects import Node
from gpushare.scheduling.allowed_gpus import follows
from gpushare.scheduling.book import Book, Reservation, reserved_shares, without
from gpushare.scheduling.fitting import PodRequest, fits, fitting_cards, unfit
from gpushare.scheduling.steps import result_of

if TYPE_CHECKING:
    # The command line uses this module without the libraries of the ledger.
    from gpushare.scheduling.ledger import Ledger

BudgetsOf = Callable[[str], Iterable[DisruptionBudget]]
"""The budgets that the eviction of a pod (by UID) uses."""
MayGo = Callable[[Reservation], bool]
"""Whether a pod may be evicted."""
Cost = tuple[int, int, int, int, int]
_LOWEST: Final = -(2**31)
_DEFAULT_PRIORITY: Final = 0


def no_budgets(uid: str) -> Iterable[DisruptionBudget]:  # noqa: ARG001 - a BudgetsOf
    """No pod has a budget, or budgets are unknown."""
    return ()


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods to evict on one node, in the order of kube-scheduler: the most important first.

    ``violations`` is the number of added pods whose eviction exceeds a disruption budget. kube-scheduler
    counts those among its own victims.
    """

    uids: tuple[str, ...]
    violations: int = 0


def victims_by_node_steps(
    ledger: "Ledger",
    pod_request: PodRequest,
    proposed: Mapping[str, Iterable[str]],
    budgets_of: BudgetsOf = no_budgets,
) -> Generator[None, None, dict[str, Victims]]:
    """The victims on each proposed node where evictions help.

    A pod whose bind is not confirmed can only go to that node, where its units are reserved. Yields after
    each node, and while it takes long: with nominated pods, 110 pods take 50 ms.
    """
    chosen = {}
    mine = ledger.reservation(pod_request.uid)
    for name, uids in proposed.items():
        book = ledger.books.get(name)
        if book and (mine is None or mine[0] == name):
            book = without(book, frozenset({pod_request.uid})) if mine else book
            victims = yield from victims_steps(book, pod_request, tuple(uids), budgets_of)
            if victims is not None:
                chosen[name] = victims
        yield
    return chosen


def victims_on(
    book: Book, pod_request: PodRequest, proposed: tuple[str, ...], budgets_of: BudgetsOf = no_budgets
) -> Victims | None:
    """The victims on one node; None if evicting all pods of lower priority does not help."""
    return result_of(victims_steps(book, pod_request, proposed, budgets_of))


def lower_than(priority: int) -> MayGo:
    """Bound pods of lower priority; kube-scheduler knows no others."""
    return lambda reservation: reservation.confirmed and reservation.priority < priority


def victims_steps(
    book: Book,
    pod_request: PodRequest,
    proposed: tuple[str, ...],
    budgets_of: BudgetsOf,
    may_go: MayGo | None = None,
) -> Generator[None, None, Victims | None]:
    """As ``victims_on``, among the pods that ``may_go``; by default those of lower priority."""
    needs_units = not pod_request.demand.empty
    if needs_units and unfit(book, pod_request.demand):
        return None
    # They go anyway, and kube-scheduler counts them as gone too.
    terminating = frozenset(r.uid for r in book.reservations.values() if r.terminating)
    remaining = without(book, terminating | frozenset(proposed))
    added: frozenset[str] | None = frozenset()
    if needs_units:
        allowed = may_go or lower_than(pod_request.priority)
        added = yield from _Eviction(remaining, pod_request, budgets_of, proposed, allowed).cheapest_steps()
    if added is None:
        return None
    violations = len(violating(_most_important_first(remaining, added), budgets_of, proposed))
    # A node without victims would make kube-scheduler drop the preemption on all nodes.
    return Victims(_in_order(book, proposed, added), violations) if proposed or added else None


def violating(victims: Iterable[str], budgets_of: BudgetsOf, evicted: Iterable[str] = ()) -> frozenset[str]:
    """The victims that exceed a budget if they are evicted in this order, after the pods ``evicted``.

    Counted as kube-scheduler counts them.
    """
    allowed: dict[tuple[str, str], int] = {}

    def exceeds(uid: str) -> bool:
        exceeded = False
        for budget in budgets_of(uid):
            key = (budget.namespace, budget.name)
            allowed[key] = allowed.get(key, budget.allowed) - 1
            exceeded |= allowed[key] < 0
        return exceeded

    for uid in evicted:
        exceeds(uid)
    return frozenset(uid for uid in victims if exceeds(uid))


def possible_victims(book: Book, priority: int) -> list[str]:
    """The pods of a node that a pod with this priority may have preempted, those that terminate first."""
    lower = (r for r in book.reservations.values() if r.confirmed and r.priority < priority)
    return [r.uid for r in sorted(lower, key=lambda r: not r.terminating)]


@dataclass(frozen=True, slots=True)
class _Eviction:
    """The choice of pods to evict from a node, from which the ``proposed`` pods are gone already."""

    book: Book
    pod_request: PodRequest
    budgets_of: BudgetsOf
    proposed: tuple[str, ...]
    may_go: MayGo

    def cheapest_steps(self) -> Generator[None, None, frozenset[str] | None]:
        """The pods with the lowest cost: on as many GPUs as the demand needs, otherwise on any GPUs."""
        if self._fits(frozenset()):
            return frozenset()
        per_card = []
        for usage in self.book.usages:
            victims = yield from self._on_card_steps(usage.card.index)
            if victims is not None:
                per_card.append(victims)
        per_card.sort(key=self._cost)
        all_candidates = self._candidates(self.book.reservations.values())
        cheap = frozenset[str]().union(*per_card[: self.pod_request.demand.cards])
        # All only if the cheap ones are not enough: each candidate costs one more placement.
        for some in (cheap, all_candidates):
            if self._fits(some):
                return (yield from self._reprieved_steps(some, self._fits))
        return None

    def _fits(self, evicted: frozenset[str]) -> bool:
        return fits(without(self.book, evicted), self.pod_request)

    def _on_card_steps(self, index: int) -> Generator[None, None, frozenset[str] | None]:
        """Pods to evict from a GPU for one GPU's amount; None if that is not enough."""
        on_card = _on_card(self.book, index)
        # Nominated pods choose among all GPUs of the node.
        seen = self.book if self.book.nominees else _only_card(self.book, index, on_card)

        def fits(evicted: frozenset[str]) -> bool:
            return _fits_without(seen, evicted, self.pod_request, index)

        candidates = self._candidates(on_card)
        return (yield from self._reprieved_steps(candidates, fits)) if fits(candidates) else None

    def _candidates(self, reservations: Iterable[Reservation]) -> frozenset[str]:
        demand = self.pod_request.demand
        return frozenset(r.uid for r in reservations if self.may_go(r) and not follows(demand, r))

    def _reprieved_steps(
        self, victims: frozenset[str], fits: Callable[[frozenset[str]], bool]
    ) -> Generator[None, None, frozenset[str]]:
        """The victims minus the pods that can stay.

        Tried first: those that exceed a disruption budget, then those with the highest priority.
        """
        exceeding = self._violating(victims)
        ordered = _most_important_first(self.book, victims)
        for uid in sorted(ordered, key=lambda uid: uid not in exceeding):
            if fits(victims - {uid}):
                victims -= {uid}
            yield
        return victims

    def _violating(self, victims: frozenset[str]) -> frozenset[str]:
        return violating(_most_important_first(self.book, victims), self.budgets_of, self.proposed)

    def _cost(self, victims: frozenset[str]) -> Cost:
        """The order of kube-scheduler for nodes: the fewest violations of disruption budgets come first."""
        return len(self._violating(victims)), *cost_of(self.book, victims)


def cost_of(book: Book, victims: Iterable[str]) -> tuple[int, int, int, int]:
    """What evictions cost: the top priority, the sum of the priorities, the number of pods, their units.

    Priorities are summed relative to the lowest possible priority, so that more victims never cost less.
    """
    reservations = [book.reservations[uid] for uid in victims]
    priorities = [each.priority for each in reservations]
    total = sum(priority - _LOWEST for priority in priorities)
    return (
        max(priorities, default=_LOWEST),
        total,
        len(priorities),
        sum(each.demand.mem for each in reservations),
    )


def _most_important_first(book: Book, uids: Iterable[str]) -> list[str]:
    return sorted(uids, key=lambda uid: (-book.reservations[uid].priority, uid))


def _in_order(book: Book, proposed: tuple[str, ...], added: frozenset[str]) -> tuple[str, ...]:
    """All victims, the most important first: kube-scheduler takes the first one's priority for the highest.

    The proposed pods are in that order already. Those without a reservation have an unknown priority: the
    default, or that of a pod behind them, if it is higher.
    """
    reservations = book.reservations
    known = [reservations[uid].priority if uid in reservations else _DEFAULT_PRIORITY for uid in proposed]
    ranks = [*accumulate(reversed(known), max)][::-1]
    extra = [(reservations[uid].priority, uid) for uid in _most_important_first(book, added)]
    ranked = [*zip(ranks, proposed, strict=True), *extra]
    return tuple(uid for _, uid in sorted(ranked, key=lambda each: -each[0]))


def _on_card(book: Book, index: int) -> list[Reservation]:
    """Reservations that count against a GPU, including those with unknown GPUs."""
    assert book.node is not None  # noqa: S101 - a book without a node has no usages
    found = []
    for reservation in book.reservations.values():
        shares = reserved_shares(reservation, book.node)
        if shares is None or any(card == index for card, _ in shares):
            found.append(reservation)
    return found


def _only_card(book: Book, index: int, reservations: Iterable[Reservation]) -> Book:
    """The book as if its node had only this GPU: several times smaller, and the same for this GPU."""
    assert book.node is not None  # noqa: S101 - as above
    cards = tuple(card for card in book.node.cards if card.index == index)
    only = replace(book.node, cards=cards, assigned={})
    parts = {r.uid: _part_on(index, r, book.node) for r in reservations}
    return replace(book, node=only, reservations=parts, nominees={})


def _part_on(index: int, reservation: Reservation, node: Node) -> Reservation:
    """The reservation without its other GPUs; if its GPUs are unknown, the whole one."""
    share = dict(reserved_shares(reservation, node) or ()).get(index)
    if share is None:
        return reservation
    return replace(reservation, demand=_on_one(reservation.demand, share), claim=((index, share),))


def _fits_without(book: Book, evicted: frozenset[str], pod_request: PodRequest, index: int) -> bool:
    demand = pod_request.demand
    one_card = PodRequest(pod_request.uid, _on_one(demand, demand.per_card), pod_request.priority)
    return any(usage.card.index == index for usage in fitting_cards(without(book, evicted), one_card))


def _on_one(demand: Demand, share: Amount) -> Demand:
    """The demand's amount on one of its GPUs, as a demand."""
    return replace(demand, mem=share.mem, core=share.core, cards=1)
