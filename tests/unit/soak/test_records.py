"""The comparison of all records finds each difference, and nothing in a cluster at rest."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.soak.actions import SIZE, Shape
from tests.soak.records import NodeRecords, Records, problems


def pod(
    name: str, cards: Mapping[int, int], *, node: str | None = "sim-0", phase: str = "Running"
) -> dict[str, Any]:
    allocation = json.dumps({"0": {str(card): units for card, units in cards.items()}})
    limits = {"aliyun.com/gpu-mem": str(sum(cards.values()))}
    return {
        "metadata": {
            "uid": f"uid of {name}",
            "name": name,
            "annotations": {"scheduler.framework.gpushare.allocation": allocation},
        },
        "spec": {"nodeName": node, "containers": [{"resources": {"limits": limits}}]},
        "status": {"phase": phase},
    }


def records(**fields: Any) -> Records:
    """A pod on a simulated node, and one with two GPUs on a node with a kubelet, at rest."""
    simulated, real = {1: 5}, {0: 4, 1: 4}
    uid = "uid of real"
    books = {("sim-0", "simulated"): simulated, ("real-0", "real"): real}
    node = NodeRecords({uid: real}, {uid: real}, {uid: real}, {uid: 8}, {"real": 8})
    found = Records(
        wanted={"simulated": Shape((5,)), "real": Shape((8,), 2)},
        finished=frozenset(),
        pods={"simulated": pod("simulated", simulated), "real": pod("real", real, node="real-0")},
        ledgers={"extender-0": books, "extender-1": books},
        nodes={"real-0": node, "real-1": NodeRecords(), "v2-0": NodeRecords()},
    )
    return replace(found, **fields)


def with_node(**fields: Any) -> Records:
    """Those records with others of one node."""
    found = records()
    return replace(found, nodes={**found.nodes, "real-0": replace(found.nodes["real-0"], **fields)})


def with_pod(name: str, changed: Mapping[str, Any]) -> Records:
    found = records()
    return replace(found, pods={**found.pods, name: changed})


def test_a_cluster_at_rest_has_no_problems() -> None:
    assert problems(records()) == []


def test_a_pod_that_does_not_exist_is_lost() -> None:
    found = records()
    wanted = {**found.wanted, "lost": Shape((1,))}
    assert problems(replace(found, wanted=wanted)) == ["lost is lost: it does not exist"]


def test_a_pending_pod_that_fits_is_a_problem() -> None:
    found = with_pod("waits", pod("waits", {}, node=None, phase="Pending"))
    wanted = {**found.wanted, "waits": Shape((SIZE,))}
    nodes = "real-1, v2-0, sim-0, sim-1, sim-2"
    assert problems(replace(found, wanted=wanted)) == [f"waits ({SIZE}) is pending, and fits {nodes}"]


def test_a_pending_pod_that_fits_nowhere_is_none() -> None:
    found = with_pod("waits", pod("waits", {}, node=None, phase="Pending"))
    assert problems(replace(found, wanted={**found.wanted, "waits": Shape((SIZE + 1,))})) == []


@pytest.mark.parametrize("phase", ["Pending", "Failed"])
def test_a_bound_pod_that_does_not_run_is_a_problem(phase: str) -> None:
    found = problems(with_pod("real", pod("real", {0: 4, 1: 4}, node="real-0", phase=phase)))
    assert f"real on real-0 is {phase}: " in found


def test_a_deleted_pod_that_is_still_there_is_a_problem() -> None:
    found = records()
    wanted = {"real": found.wanted["real"]}
    assert "simulated was deleted and is still there" in problems(replace(found, wanted=wanted))


def test_units_of_a_gpu_over_its_size_are_a_problem() -> None:
    found = with_pod("more", pod("more", {1: 10}))
    assert "GPU 1 of sim-0 has 15 of 14 units: simulated, more" in problems(found)


def test_a_replica_that_counts_other_units_is_a_problem() -> None:
    found = records()
    ledgers = {**found.ledgers, "extender-1": {("sim-0", "simulated"): {1: 5}}}
    text = "extender-1: ('real-0', 'real'): None, its containers have {0: 4, 1: 4}"
    assert problems(replace(found, ledgers=ledgers)) == [text]


def test_a_replica_that_counts_a_pod_that_is_gone_is_a_problem() -> None:
    found = records()
    ledgers = {**found.ledgers, "extender-0": {**found.ledgers["extender-0"], ("sim-1", "gone"): {0: 3}}}
    text = "extender-0: ('sim-1', 'gone'): {0: 3}, its containers have None"
    assert problems(replace(found, ledgers=ledgers)) == [text]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"record": {}}, "real-0: record of the agent: uid of real: None, its containers have {0: 4, 1: 4}"),
        ({"assigned": {"uid of real": {0: 8}}}, "real-0: real: published {0: 8}, its containers have"),
        ({"assigned": {"uid of gone": {0: 8}}}, "real-0: assigned to a pod that is gone: uid of gone"),
        ({"checkpoint": {}}, "real-0: real: checkpoint of the kubelet: None of 8 units"),
        ({"resources": {"real": 4}}, "real-0: real: PodResources of the kubelet: 4 of 8 units"),
        ({"specs": {}}, "real (8 on 2 GPUs) on real-0 has {}"),
    ],
)
def test_a_record_of_a_node_that_differs_is_a_problem(fields: Mapping[str, Any], text: str) -> None:
    assert any(each.startswith(text) for each in problems(with_node(**fields)))


def test_containers_of_a_pod_that_is_gone_are_a_problem() -> None:
    found = records()
    specs = {**found.nodes["real-0"].specs, "uid of gone": {0: 1}}
    text = "real-0: containers of a pod that is gone: uid of gone has {0: 1}"
    assert text in problems(with_node(specs=specs))
