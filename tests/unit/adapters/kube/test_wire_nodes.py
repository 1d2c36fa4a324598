"""From API JSON to nodes."""

from typing import Any

import msgspec
import pytest

from gpushare import contract
from gpushare.adapters.kube.wire import WireNode, core_node
from gpushare.model.cards import Card
from gpushare.model.objects import NO_UNITS, Node

MEM = contract.RESOURCE_MEM


def node(capacity: dict[str, Any] | None = None, **meta: Any) -> Node:
    return read({"metadata": {"name": "n", **meta}, "status": {"capacity": capacity}})


def read(raw: dict[str, Any]) -> Node:
    return core_node(msgspec.json.decode(msgspec.json.encode(raw), type=WireNode))


def sharing(allocatable: dict[str, Any] | None = None, *, conditions: Any = None, **spec: Any) -> Node:
    """A node of our agent with one GPU."""
    annotations = {contract.ANN_CARDS: '[{"index":0,"units":22}]'}
    status = {"allocatable": {MEM: "22"} if allocatable is None else allocatable, "conditions": conditions}
    return read({"metadata": {"name": "n", "annotations": annotations}, "spec": spec, "status": status})


def test_a_node_of_the_aliyun_plugin() -> None:
    found = node({MEM: "28", contract.RESOURCE_COUNT: "2", "cpu": "8"})
    assert found.cards == (Card(0, 14), Card(1, 14))


def test_a_node_of_our_agent() -> None:
    annotations = {
        contract.ANN_CARDS: '[{"index":0,"units":22}]',
        contract.ANN_ASSIGNED_NODE: '{"u":{"main":{"0":4}}}',
    }
    found = node({MEM: "28", contract.RESOURCE_COUNT: "2"}, annotations=annotations)
    assert found.cards == (Card(0, 22),)
    assert found.assigned == {"u": {0: 4}}


def test_labels_of_a_node() -> None:
    found = node({}, labels={contract.LABEL_MODE: "core_mem", contract.LABEL_PLACEMENT: "spread"})
    assert (found.mode, found.placement) == ("core_mem", "spread")


@pytest.mark.parametrize(("text", "seen"), [("true", True), ("false", False), ("True", False), ("", False)])
def test_mps_serves_several_users_only_if_the_label_is_true(text: str, seen: bool) -> None:  # noqa: FBT001 - a table
    assert node({}, annotations={contract.ANN_MPS_MULTI_USER: text}).multi_user is seen
    assert node({}).multi_user is False


def test_a_node_without_anything_is_a_node_without_gpus() -> None:
    assert node(None, labels=None, annotations=None).cards == ()


@pytest.mark.parametrize("allocatable", [{}, {MEM: "0"}, {MEM: "nonsense"}])
def test_a_node_whose_kubelet_offers_no_units_is_closed(allocatable: dict[str, Any]) -> None:
    """As after the end of the node agent: the annotation stays."""
    assert sharing().closed is None
    assert sharing(allocatable).closed == NO_UNITS
    assert sharing(allocatable).cards == (Card(0, 22),)


def test_a_node_without_gpus_is_not_closed_for_lack_of_units() -> None:
    assert node({"cpu": "8"}).closed is None


def test_a_node_that_takes_no_pods_is_away() -> None:
    ready, silent = ([{"type": "Ready", "status": status}] for status in ("True", "Unknown"))
    assert sharing(conditions=ready).away is None
    assert sharing(conditions=silent).away == "not ready"
    assert sharing(conditions=ready, unschedulable=True).away == "cordoned"


def test_the_reason_of_the_node_agent_closes_a_node() -> None:
    annotations = {contract.ANN_CARDS: '[{"index":0,"units":22}]', contract.ANN_CLOSED: "no library"}
    found = read({"metadata": {"name": "n", "annotations": annotations | {contract.ANN_OPENED: "10:00"}}})
    assert (found.closed, found.opened) == ("no library", "10:00")
