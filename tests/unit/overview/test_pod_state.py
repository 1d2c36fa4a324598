"""The state of a pod is the word of ``kubectl get pods``."""

from typing import Any

import msgspec
import pytest

from gpushare.overview.objects import ClusterPod
from gpushare.overview.pod_state import runs, state_of

RUNNING: dict[str, Any] = {"name": "main", "state": {"running": {}}}
WAITS: dict[str, Any] = {"name": "main", "state": {"waiting": {"reason": "ErrImagePull"}}}
ENDED: dict[str, Any] = {"name": "main", "state": {"terminated": {"exitCode": 3}}}
COMPLETED: dict[str, Any] = {"name": "side", "state": {"terminated": {"reason": "Completed"}}}


def pod(
    phase: str = "Running", *, deleted: bool = False, init: list[Any] | None = None, **status: Any
) -> Any:
    meta = {"name": "p", **({"deletionTimestamp": "2026-11-29T00:00:00Z"} if deleted else {})}
    fields = {"metadata": meta, "spec": {"initContainers": init or []}, "status": {"phase": phase, **status}}
    return msgspec.convert(fields, ClusterPod)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (pod("Pending"), "Pending"),
        (pod(containerStatuses=[RUNNING]), "Running"),
        (pod("Pending", containerStatuses=[WAITS]), "ErrImagePull"),
        (pod(containerStatuses=[ENDED]), "ExitCode:3"),
        (pod(containerStatuses=[COMPLETED, RUNNING]), "Running"),
        (pod("Succeeded", containerStatuses=[COMPLETED]), "Completed"),
        (pod("Failed", reason="Evicted"), "Evicted"),
        (pod(deleted=True, containerStatuses=[RUNNING]), "Terminating"),
        (pod(deleted=True, reason="NodeLost"), "Unknown"),
        (
            pod("Pending", conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]),
            "SchedulingGated",
        ),
        (pod("Pending", init=[{"name": "main"}], initContainerStatuses=[WAITS]), "Init:ErrImagePull"),
        (pod("Pending", init=[{"name": "main"}], initContainerStatuses=[ENDED]), "Init:ExitCode:3"),
        (pod("Pending", init=[{"name": "main"}], initContainerStatuses=[RUNNING]), "Init:0/1"),
        (
            pod(
                init=[{"name": "main", "restartPolicy": "Always"}],
                initContainerStatuses=[RUNNING],
                containerStatuses=[RUNNING],
            ),
            "Running",
        ),
    ],
)
def test_the_state_is_that_of_kubectl(found: ClusterPod, state: str) -> None:
    assert state_of(found) == state


@pytest.mark.parametrize(
    ("phase", "state", "expected"),
    [
        ("Running", "Running", True),
        ("Running", "Terminating", True),
        ("Running", "CrashLoopBackOff", False),
        ("Pending", "ErrImagePull", False),
        ("Pending", "Terminating", False),
        (None, None, False),
    ],
)
def test_whether_the_containers_run(phase: str | None, state: str | None, *, expected: bool) -> None:
    assert runs(phase, state) is expected
