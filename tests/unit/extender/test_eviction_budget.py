"""How many pods may be evicted in an hour."""

from gpushare.extender.eviction_budget import EvictionBudget


def test_a_plan_that_exceeds_a_budget_is_refused_as_a_whole() -> None:
    budget = EvictionBudget(3, 2, clock=lambda: 0.0)
    assert budget.refusal(["a", "a", "b"]) == ""
    assert "2 pods of one namespace" in budget.refusal(["a", "a", "a"])
    assert "3 pods are evicted" in budget.refusal(["a", "b", "c", "d"])
    budget.take("a")
    assert "one namespace" in budget.refusal(["a", "a"])
    assert "in an hour" in budget.refusal(["a", "b", "c"])


def test_budgets_refill_evenly() -> None:
    now = 0.0
    budget = EvictionBudget(2, 1, clock=lambda: now)
    budget.take("a")
    assert budget.refusal(["a"])
    now = 1800.0
    assert budget.refusal(["a"])
    assert not budget.refusal(["b"])
    now = 3600.0
    assert not budget.refusal(["a"])
