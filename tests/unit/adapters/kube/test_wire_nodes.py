"""From API JSON to nodes."""

from typing import Any

import msgspec
import pytest

from gpushare import contract
from gpushare.adapters.kube.wire import WireNode, core_node
from gpushare.model.cards import Card

MEM = contract.RESOURCE_MEM


def node(capacity: dict[str, Any] | None = None, **meta: Any) -> Any:
    raw = {"metadata": {"name": "n", **meta}, "status": {"capacity": capacity}}
    return core_node(msgspec.json.decode(msgspec.json.encode(raw), type=WireNode))


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
