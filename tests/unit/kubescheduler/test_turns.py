import random
from collections.abc import Sequence

import pytest

from gpushare.kubescheduler.turns import InstallerPod, Step, turn

KILLED = 137
NODES = ("cp-a", "cp-b", "cp-c")


def pod(node: str, phase: str = "Running", exit_code: int | None = None, **rest: str) -> InstallerPod:
    named = {"name": f"pod-{node}", "job": "job", "message": "", **rest}
    return InstallerPod(node=node, phase=phase, exit_code=exit_code, **named)


def steps(pods: Sequence[InstallerPod]) -> dict[str, Step]:
    return {each.node: turn(pods, each.name, 3).step for each in pods if each.phase == "Running"}


def test_the_first_control_plane_by_name_begins_and_the_others_wait_for_it() -> None:
    pods = [pod("cp-c"), pod("cp-a"), pod("cp-b")]
    assert steps(pods) == {"cp-a": Step.EDIT, "cp-b": Step.WAIT, "cp-c": Step.WAIT}
    assert turn(pods, "pod-cp-c", 3).reason == "control plane cp-a comes first"


def test_the_next_one_begins_when_the_one_before_has_succeeded() -> None:
    pods = [pod("cp-a", "Succeeded", 0), pod("cp-b"), pod("cp-c")]
    assert steps(pods) == {"cp-b": Step.EDIT, "cp-c": Step.WAIT}


def test_no_pod_begins_before_every_control_plane_has_its_pod() -> None:
    pods = [pod("cp-a"), pod("cp-b"), pod("", "Pending", name="late")]
    assert set(steps(pods).values()) == {Step.WAIT}
    reported = turn(pods, "pod-cp-a", 3).reason
    assert reported == "3 control planes are expected, and pods of the Job are on cp-a, cp-b only"


def test_no_control_plane_is_edited_after_one_has_failed() -> None:
    pods = [pod("cp-a", "Succeeded", 0), pod("cp-b", exit_code=1, message="it is refused"), pod("cp-c")]
    assert steps(pods) == {"cp-b": Step.STOP, "cp-c": Step.STOP}
    assert turn(pods, "pod-cp-c", 3).reason == (
        "nothing was changed: control plane cp-b failed: it is refused"
    )


def test_a_failed_pod_reports_the_same_after_a_restart() -> None:
    pods = [pod("cp-a", exit_code=1, message="after"), pod("cp-b", exit_code=1, message="first"), pod("cp-c")]
    assert turn(pods, "pod-cp-b", 3) == (Step.STOP, "first")


def test_a_failure_without_a_message_names_the_pod_with_the_log() -> None:
    assert turn([pod("cp-a", exit_code=1)], "pod-cp-a", 1).reason == "see the log of pod pod-cp-a"


@pytest.mark.parametrize("code", [130, KILLED, 143, 255])
def test_a_killed_pod_continues_and_keeps_the_others_waiting(code: int) -> None:
    pods = [pod("cp-a", exit_code=code), pod("cp-b"), pod("cp-c")]
    assert steps(pods) == {"cp-a": Step.EDIT, "cp-b": Step.WAIT, "cp-c": Step.WAIT}


def test_a_node_with_a_missing_pod_keeps_the_others_waiting() -> None:
    pods = [pod("cp-a", "Failed", KILLED), pod("cp-b"), pod("cp-c")]
    assert steps(pods) == {"cp-b": Step.WAIT, "cp-c": Step.WAIT}


def test_more_nodes_than_control_planes_are_refused() -> None:
    pods = [pod("cp-a"), pod("cp-b"), pod("cp-c"), pod("cp-d")]
    assert set(steps(pods).values()) == {Step.STOP}


def test_a_pod_of_an_earlier_job_is_waited_for_and_its_past_does_not_count() -> None:
    earlier = pod("cp-a", name="old", job="earlier")
    pods = [earlier, pod("cp-a")]
    assert turn(pods, "pod-cp-a", 1) == (Step.WAIT, "pod old of an earlier Job has not finished")
    failed = pod("cp-a", "Failed", 1, name="old", job="earlier")
    assert turn([failed, pod("cp-a")], "pod-cp-a", 1).step is Step.EDIT


def test_a_pod_that_is_not_listed_yet_waits() -> None:
    assert turn([], "pod-cp-a", 1) == (Step.WAIT, "pod pod-cp-a is not listed")


def test_a_pod_on_a_node_that_is_done_checks_it_again() -> None:
    pods = [pod("cp-a", "Succeeded", 0, name="before"), pod("cp-a")]
    assert turn(pods, "pod-cp-a", 1).step is Step.EDIT


@pytest.mark.parametrize("seed", range(200))
def test_two_pods_never_edit_at_once(seed: int) -> None:
    """Each pod may have asked at another moment; in between, pods succeed and are killed."""
    chance = random.Random(seed)
    pods = {node: pod(node) for node in NODES}
    editing: set[str] = set()
    while any(each.phase == "Running" for each in pods.values()):
        node = chance.choice(NODES)
        if pods[node].phase != "Running":
            continue
        if node in editing:
            editing.remove(node)
            ended = {"phase": "Succeeded", "exit_code": 0} if chance.random() < 0.5 else {"exit_code": KILLED}
            pods[node] = pods[node]._replace(**ended)
        elif turn(list(pods.values()), f"pod-{node}", 3).step is Step.EDIT:
            editing.add(node)
        assert len(editing) <= 1
