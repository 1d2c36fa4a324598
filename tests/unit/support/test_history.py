"""The checks for over-commitment find it."""

import json
from typing import Any

from tests.support.history import OverCommit, overcommits


def pod(name: str, units: int, card: int = 0, *, node: str = "n", phase: str = "Running") -> dict[str, Any]:
    allocation = json.dumps({"0": {str(card): units}})
    return {
        "metadata": {
            "uid": name,
            "name": name,
            "annotations": {"scheduler.framework.gpushare.allocation": allocation},
        },
        "spec": {
            "nodeName": node,
            "containers": [{"resources": {"limits": {"aliyun.com/gpu-mem": str(units)}}}],
        },
        "status": {"phase": phase},
    }


def test_two_pods_of_8_on_a_gpu_of_14_are_an_overcommit() -> None:
    history = [("ADDED", pod("a", 8)), ("ADDED", pod("b", 8))]
    assert overcommits(history, 14) == [OverCommit("n", 0, 16, 14, ("a", "b"))]


def test_one_moment_of_overcommitment_is_found() -> None:
    history = [("ADDED", pod("a", 8)), ("ADDED", pod("b", 8)), ("DELETED", pod("a", 8))]
    assert len(overcommits(history, 14)) == 1


def test_a_full_gpu_is_no_overcommit() -> None:
    assert overcommits([("ADDED", pod("a", 8)), ("ADDED", pod("b", 6))], 14) == []


def test_other_gpus_and_other_nodes_do_not_count() -> None:
    history = [("ADDED", pod("a", 8)), ("ADDED", pod("b", 8, 1)), ("ADDED", pod("c", 8, node="m"))]
    assert overcommits(history, 14) == []


def test_deleted_and_finished_pods_have_no_units() -> None:
    history = [
        ("ADDED", pod("a", 8)),
        ("DELETED", pod("a", 8)),
        ("ADDED", pod("b", 8)),
        ("MODIFIED", pod("b", 8, phase="Succeeded")),
        ("ADDED", pod("c", 8)),
    ]
    assert overcommits(history, 14) == []


def test_a_pod_that_is_being_deleted_keeps_its_gpu() -> None:
    leaving = pod("a", 8)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert len(overcommits([("MODIFIED", leaving), ("ADDED", pod("b", 8))], 14)) == 1
