"""Nodes that are not ready, and how many of them are too many."""

from typing import Any

import msgspec
import pytest

from gpushare.cli.doctor.readiness import Fleet, Rollout, readiness
from gpushare.cli.doctor.verdict import CheckVerdict, Status
from gpushare.cli.lib.flag_types import Allowance
from gpushare.contract import AGENT_NAME
from gpushare.overview.objects import ClusterNode
from gpushare.overview.system_pods import SystemPod
from tests.support.builders.diagnosis import gpu_node, system_pod

TENTH, NONE = Allowance("10%", 10, is_percentage=True), Allowance("0", 0, is_percentage=False)


def nodes(count: int, **changes: Any) -> list[ClusterNode]:
    made = [gpu_node(f"gpu-{index}") for index in range(count - 1)] + [gpu_node("last", **changes)]
    return [msgspec.convert(each, ClusterNode) for each in made]


def agents(found: list[ClusterNode], *, without: str = "", unready: str = "") -> list[SystemPod]:
    return [
        system_pod(AGENT_NAME, node=each.name, ready=each.name != unready)
        for each in found
        if each.name != without
    ]


def rollout(desired: int, updated: int, *, generation: int = 2, observed: int = 2) -> Rollout:
    status = {
        "observedGeneration": observed,
        "desiredNumberScheduled": desired,
        "updatedNumberScheduled": updated,
    }
    return msgspec.convert({"metadata": {"generation": generation}, "status": status}, Rollout)


def judged(
    found: list[ClusterNode],
    pods: list[SystemPod],
    rollouts: tuple[Rollout, ...] = (),
    allowance: Allowance = TENTH,
) -> CheckVerdict:
    return readiness(allowance).run(Fleet(found, pods, rollouts))


@pytest.mark.parametrize(
    ("changes", "pods", "reason"),
    [
        ({"ready": False}, {}, "last (not ready)"),
        ({}, {"without": "last"}, "last (no agent)"),
        ({}, {"unready": "last"}, "last (the agent is not ready)"),
        ({"amounts": {}}, {}, "last (offers no units)"),
    ],
)
def test_a_node_that_is_not_ready_is_named_with_its_reason(
    changes: dict[str, Any], pods: dict[str, str], reason: str
) -> None:
    found = nodes(50, **changes)
    allowed = judged(found, agents(found, **pods))
    assert allowed.status is Status.OK
    assert allowed.cause == f"1 of 50 nodes not ready, not more than 10%: {reason}"
    refused = judged(found, agents(found, **pods), allowance=NONE)
    assert refused.status is Status.FAILED
    assert refused.cause == f"1 of 50 nodes not ready, more than 0: {reason}"


def test_a_percentage_is_rounded_down() -> None:
    found = nodes(9, ready=False)
    assert judged(found, agents(found)).status is Status.FAILED


def test_nodes_with_an_earlier_agent_are_not_ready_yet() -> None:
    found = nodes(50)
    assert judged(found, agents(found), (rollout(50, 45),)).status is Status.OK
    early = judged(found, agents(found), (rollout(50, 44),))
    assert (early.status, early.cause) == (
        Status.FAILED,
        "6 of 50 nodes without the new agent yet, more than 10%",
    )


def test_an_update_that_its_controller_has_not_seen_is_not_done() -> None:
    found = nodes(50)
    assert judged(found, agents(found), (rollout(50, 50, observed=1),)).status is Status.FAILED


def test_an_agent_that_is_being_replaced_counts_as_the_ready_one() -> None:
    found = nodes(1)
    assert judged(found, [*agents(found), *agents(found, unready="last")], allowance=NONE).status is Status.OK


def test_a_node_counts_for_its_agent_whatever_label_selects_it() -> None:
    found = nodes(1, labels={}, amounts={})
    assert judged(found, agents(found, unready="last"), allowance=NONE).status is Status.FAILED


def test_a_cluster_without_a_node_is_not_ready() -> None:
    assert judged([], []).status is Status.FAILED
