"""Required node affinity, as in kube-scheduler."""

from typing import Any

import msgspec
import pytest

from gpushare.overview.affinity import Affinity

LABELS = {"zone": "a", "memory": "80", "gpushare": "true"}


def admits(*terms: dict[str, Any]) -> bool:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return msgspec.convert({"nodeAffinity": required}, Affinity).admits("gpu-1", LABELS)


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    "expression",
    [
        label("zone", "In", "b", "a"),
        label("zone", "NotIn", "b"),  # codespell:ignore notin
        label("absent", "NotIn", "b"),  # codespell:ignore notin
        label("zone", "Exists"),
        label("absent", "DoesNotExist"),
        label("memory", "Gt", "40"),
        label("memory", "Lt", "81"),
    ],
)
def test_a_condition_that_the_node_meets(expression: dict[str, Any]) -> None:
    assert admits({"matchExpressions": [expression]})
    assert not admits({"matchExpressions": [expression, label("zone", "In", "b")]})


@pytest.mark.parametrize(
    "expression",
    [
        label("zone", "In", "b"),
        label("absent", "In", "b"),
        label("zone", "NotIn", "a"),  # codespell:ignore notin
        label("absent", "Exists"),
        label("zone", "DoesNotExist"),
        label("memory", "Gt", "80"),
        label("memory", "Lt", "80"),
        label("zone", "Gt", "1"),
        label("absent", "Lt", "1"),
        label("memory", "Gt"),
        label("zone", "Equals", "a"),
    ],
)
def test_a_condition_that_the_node_does_not_meet(expression: dict[str, Any]) -> None:
    assert not admits({"matchExpressions": [expression]})
    assert admits({"matchExpressions": [expression]}, {"matchExpressions": [label("zone", "Exists")]})


def test_the_name_of_the_node_is_a_field() -> None:
    assert admits({"matchFields": [label("metadata.name", "In", "gpu-1")]})
    assert not admits({"matchFields": [label("metadata.name", "In", "gpu-2")]})


def test_no_term_and_an_empty_term_match_no_node() -> None:
    assert not admits()
    assert not admits({})


@pytest.mark.parametrize("affinity", [{}, {"nodeAffinity": {}}, {"podAffinity": {}}, {"nodeAffinity": None}])
def test_without_required_terms_every_node_is_admitted(affinity: dict[str, Any]) -> None:
    assert msgspec.convert(affinity, Affinity).admits("gpu-1", LABELS)
