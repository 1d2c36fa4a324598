"""From API JSON to disruption budgets."""

from typing import Any

import msgspec
import pytest

from gpushare.adapters.kube.extender_resources import BUDGETS, WireBudget
from gpushare.model.disruption import DisruptionBudget
from tests.support.builders.scheduling import pod


def read(spec: object, status: object = None) -> tuple[str, DisruptionBudget]:
    """The budget that the API would write so."""
    meta = {"name": "db", "namespace": "default", "uid": "u", "resourceVersion": "7"}
    text = msgspec.json.encode({"metadata": meta, "spec": spec, "status": status or {}})
    found = BUDGETS.read(msgspec.json.decode(text, type=WireBudget))
    assert found is not None
    return found


def covers(selector: object, **labels: str) -> bool:
    return read({"selector": selector})[1].covers(pod("p", labels=labels))


def test_the_key_has_the_namespace_and_the_amounts_come_from_the_status() -> None:
    status = {"disruptionsAllowed": 2, "disruptedPods": {"a": "2026-01-01T00:00:00Z"}, "currentHealthy": 3}
    key, budget = read({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}}, status)
    assert key == "default/db"
    assert (budget.allowed, budget.disrupted) == (2, frozenset({"a"}))


def test_a_new_budget_allows_no_disruption() -> None:
    assert read({"selector": {}})[1].allowed == 0


def expression(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "app", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"app": "db"}},
        expression("In", "web", "db"),
        expression("NotIn", "web"),  # codespell:ignore notin
        expression("Exists"),
        {"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]},
        {"matchLabels": {"app": "db"}, **expression("NotIn", "web")},  # codespell:ignore notin
    ],
)
def test_selectors_that_match(selector: object) -> None:
    assert covers(selector, app="db")


@pytest.mark.parametrize(
    "selector",
    [
        None,
        {},
        {"matchLabels": {"app": "web"}},
        expression("In", "web"),
        expression("NotIn", "db"),  # codespell:ignore notin
        expression("DoesNotExist"),
        {"matchLabels": {"app": "db"}, **expression("Unknown")},
        {"matchLabels": {"app": "db"}, **expression("In")},
    ],
)
def test_selectors_that_match_no_pod_of_ours_or_are_invalid(selector: object) -> None:
    assert not covers(selector, app="db")
