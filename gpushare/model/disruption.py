"""PodDisruptionBudgets as kube-scheduler reads them, reduced to what a preemption needs."""

from collections.abc import Iterable
from dataclasses import dataclass

from gpushare.model.objects import Pod
from gpushare.model.selector import Selector

_Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """``allowed`` is the number of its pods that may be evicted now.

    ``disrupted`` are the names of pods whose eviction ``allowed`` includes already. Like kube-scheduler, a
    budget without conditions selects no pod.
    """

    namespace: str
    name: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str] = frozenset()

    def covers(self, pod: Pod) -> bool:
        """Whether the eviction of the pod uses the budget."""
        if not self.selector.terms or not pod.labels or pod.name in self.disrupted:
            return False
        return pod.namespace == self.namespace and self.selector(dict(pod.labels))


class Budgets:
    """All budgets, found by a label that they require: a namespace may have thousands of them."""

    def __init__(self, budgets: Iterable[DisruptionBudget] = ()) -> None:
        self._by_label: dict[tuple[str, _Pair | None], list[DisruptionBudget]] = {}
        for budget in budgets:
            key = (budget.namespace, _required_label(budget.selector))
            self._by_label.setdefault(key, []).append(budget)

    def covering(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        """The budgets that an eviction of the pod uses."""
        if not self._by_label:
            return ()
        found = (self._by_label.get((pod.namespace, pair), ()) for pair in (*pod.labels, None))
        return tuple(budget for budgets in found for budget in budgets if budget.covers(pod))


def _required_label(selector: Selector) -> _Pair | None:
    """A label that all selected pods have; None if the selector names no single value."""
    for term in selector.terms:
        if term.wanted and term.values and len(term.values) == 1:
            return term.key, next(iter(term.values))
    return None
