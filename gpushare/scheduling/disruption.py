"""Which evictions exceed a PodDisruptionBudget, counted as kube-scheduler counts them."""

from collections.abc import Callable, Iterable

from gpushare.model.disruption import DisruptionBudget

BudgetsOf = Callable[[str], Iterable[DisruptionBudget]]
"""The budgets that the eviction of a pod (by UID) uses."""


def no_budgets(uid: str) -> Iterable[DisruptionBudget]:  # noqa: ARG001 - a BudgetsOf
    """No pod has a budget, or budgets are unknown."""
    return ()


def violating(victims: Iterable[str], budgets_of: BudgetsOf, evicted: Iterable[str] = ()) -> frozenset[str]:
    """The victims that exceed a budget if they are evicted in this order, after the pods ``evicted``."""
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
