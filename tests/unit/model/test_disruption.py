"""Which pods a disruption budget covers, as kube-scheduler decides it."""

from dataclasses import replace

import pytest

from gpushare.model.disruption import Budgets, DisruptionBudget
from gpushare.model.selector import Selector, Term
from tests.support.builders.scheduling import budget, pod

DB = pod("db-0", labels={"app": "db", "zone": "b"})


def names(found: tuple[DisruptionBudget, ...]) -> list[str]:
    return [each.name for each in found]


@pytest.mark.parametrize(
    "selecting",
    [
        budget(app="db"),
        budget(app="db", zone="b"),
        replace(budget(), selector=Selector((Term("app", frozenset({"db", "web"})),))),
        replace(budget(), selector=Selector((Term("app"),))),
        replace(budget(), selector=Selector((Term("gpu", wanted=False),))),
    ],
)
def test_a_pod_with_the_labels_is_covered(selecting: DisruptionBudget) -> None:
    assert names(Budgets([selecting]).covering(DB)) == ["budget"]


@pytest.mark.parametrize(
    "other",
    [
        budget(app="web"),
        budget(app="db", zone="c"),
        budget(app="db", namespace="other"),
        budget(),
        replace(budget(app="db"), disrupted=frozenset({"db-0"})),
        replace(budget(), selector=Selector((Term("app", wanted=False),))),
    ],
)
def test_any_other_pod_is_not(other: DisruptionBudget) -> None:
    assert Budgets([other]).covering(DB) == ()


def test_a_pod_without_labels_is_covered_by_no_budget() -> None:
    anything = replace(budget(), selector=Selector((Term("app", wanted=False),)))
    assert Budgets([anything]).covering(pod("bare")) == ()


def test_several_budgets_may_cover_a_pod() -> None:
    budgets = [budget("a", app="db"), budget("b", app="web"), budget("c", zone="b")]
    assert sorted(names(Budgets(budgets).covering(DB))) == ["a", "c"]
