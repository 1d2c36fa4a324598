"""The state of a pod in one word, as ``kubectl get pods`` has it."""

import json
from typing import Any

import pytest

from gpushare.overview.gpu_pods import read_cluster_pod
from gpushare.overview.objects import ClusterPod


def pod(phase: str, *states: dict[str, Any], **status: Any) -> ClusterPod:
    statuses = [{"name": f"c{index}", "state": state} for index, state in enumerate(states)]
    wire = {"status": {"phase": phase, "containerStatuses": statuses, **status}}
    found = read_cluster_pod(json.dumps(wire).encode())
    assert isinstance(found, ClusterPod)
    return found


PULL = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
RUNS = {"running": {"startedAt": "2026-11-25T01:00:00Z"}}
DONE = {"terminated": {"reason": "Completed", "exitCode": 0}}
KILLED = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}


@pytest.mark.parametrize(
    ("found", "state", "runs"),
    [
        (pod("Running", RUNS), "Running", True),
        (pod("Pending", PULL), "ErrImagePull", False),
        (pod("Running", RUNS, PULL), "ErrImagePull", False),
        (pod("Running", KILLED), "OOMKilled", False),
        (pod("Running", RUNS, initContainerStatuses=[{"name": "i", "state": DONE}]), "Running", True),
        (pod("Pending"), "Pending", False),
        (pod("Failed", reason="Evicted"), "Evicted", False),
        (pod(""), "Unknown", False),
    ],
)
def test_the_state_of_a_pod(found: ClusterPod, state: str, *, runs: bool) -> None:
    assert (found.state, found.runs) == (state, runs)


def test_a_pod_that_is_being_deleted_still_runs() -> None:
    wire = {"metadata": {"deletionTimestamp": "2026-11-25T01:00:00Z"}, "status": {"phase": "Running"}}
    found = read_cluster_pod(json.dumps(wire).encode())
    assert isinstance(found, ClusterPod)
    assert (found.state, found.runs) == ("Terminating", True)
