"""Comparison of requested objects with those of the API server."""

from typing import Any

import pytest

from tests.support.fields import differences, seen_through


def unlike(live: Any, wanted: Any) -> list[str]:
    return differences(seen_through(live, wanted), wanted)


def test_fields_that_the_server_adds_are_no_difference() -> None:
    live = {"spec": {"type": "NodePort", "clusterIP": "10.0.0.1"}, "status": {}}
    assert unlike(live, {"spec": {"type": "NodePort"}}) == []


@pytest.mark.parametrize(
    ("live", "path"),
    [
        ({"spec": {"replicas": 2, "paused": True}}, "spec.replicas"),
        ({"spec": {"paused": True}}, "spec.replicas"),
        ({}, "spec"),
    ],
)
def test_a_missing_or_different_field_is_reported_by_its_path(live: Any, path: str) -> None:
    assert unlike(live, {"spec": {"replicas": 1}}) == [path]


def test_list_items_are_matched_by_name() -> None:
    live = [{"name": "b", "value": "2", "more": 1}, {"name": "a", "value": "1"}]
    assert unlike(live, [{"name": "a", "value": "1"}]) == []
    assert unlike(live, [{"name": "a", "value": "0"}]) == ["[0].value"]


def test_a_missing_item_is_a_difference_of_its_list() -> None:
    assert unlike({"env": [{"name": "a"}]}, {"env": [{"name": "a"}, {"name": "b"}]}) == ["env"]


def test_plain_lists_are_compared_item_by_item() -> None:
    assert unlike({"verbs": ["get", "list"]}, {"verbs": ["get", "watch"]}) == ["verbs[1]"]
    assert unlike({"verbs": ["get", "list"]}, {"verbs": ["get"]}) == ["verbs"]
