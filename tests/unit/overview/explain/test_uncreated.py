"""Whose failure to create a pod is the reason that a pod does not exist."""

import msgspec
import pytest

from gpushare.overview.explain.uncreated import FailedCreate, reason_of


def event(controller: str, message: str = "no quota", seen: str = "2026-11-29T00:00:00Z") -> FailedCreate:
    kind = "ReplicaSet" if controller.count("-") else "StatefulSet"
    wire = {"involvedObject": {"kind": kind, "name": controller}, "message": message, "lastTimestamp": seen}
    return msgspec.convert(wire, FailedCreate)


@pytest.mark.parametrize(
    ("controller", "name"),
    [("web", "web"), ("web-5d8f", "web"), ("web-5d8f", "web-5d8f-x2x4z"), ("web", "web-0")],
)
def test_a_pod_is_of_its_workload(controller: str, name: str) -> None:
    assert reason_of([event(controller)], name).endswith(f" {controller} cannot create pods: no quota")


@pytest.mark.parametrize(
    ("controller", "name"),
    [("web-api-5d8f", "web"), ("web", "web-api-5d8f-x2x4z"), ("web", "webs-0"), ("web", "other")],
)
def test_a_workload_with_a_longer_name_is_another_one(controller: str, name: str) -> None:
    assert reason_of([event(controller)], name) == ""


def test_the_last_reason_counts_in_any_order() -> None:
    old, new = event("web", "old"), event("web", "new", "2026-11-29T01:00:00Z")
    assert reason_of([new, old], "web").endswith(": new")
