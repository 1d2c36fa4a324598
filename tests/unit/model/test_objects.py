"""Nodes as the core reads them: sharing mode, GPUs, and why they are unschedulable."""

import pytest

from gpushare.contract import LABEL_MODE
from gpushare.model.cards import Card
from gpushare.model.modes import Mode
from gpushare.model.objects import NO_COUNT, Node, node_of
from tests.support.builders.scheduling import pod

T4_PAIR: dict[str, object] = {"aliyun.com/gpu-mem": "28", "aliyun.com/gpu-count": "2"}


def read(capacity: dict[str, object] | None = None, *, cards: str | None = None) -> Node:
    return node_of("n", capacity=T4_PAIR if capacity is None else capacity, cards_text=cards)


def labelled(labels: dict[str, str]) -> Node:
    return node_of("n", capacity=T4_PAIR, labels=labels)


def why(node: Node) -> str:
    assert node.closed is not None
    return node.closed


def test_a_node_of_the_aliyun_plugin_has_equal_gpus() -> None:
    assert read().cards == (Card(0, 14), Card(1, 14))
    assert read().closed is None


def test_units_that_do_not_divide_are_rounded_down() -> None:
    capacity: dict[str, object] = {"aliyun.com/gpu-mem": "29", "aliyun.com/gpu-count": "2"}
    assert read(capacity).cards == (Card(0, 14), Card(1, 14))


def test_capacity_may_be_a_quantity_or_a_number() -> None:
    capacity: dict[str, object] = {"aliyun.com/gpu-mem": "32k", "aliyun.com/gpu-count": 2}
    assert read(capacity).cards == (Card(0, 16_000), Card(1, 16_000))


def test_the_agents_list_of_gpus_beats_capacity() -> None:
    found = read(cards='[{"index":1,"units":11},{"index":0,"units":22,"healthy":false}]')
    assert found.cards == (Card(0, 22, healthy=False), Card(1, 11))


@pytest.mark.parametrize("units", ["0", 0, "-4", None])
def test_a_node_without_units_shares_nothing(units: object) -> None:
    capacity: dict[str, object] = {} if units is None else {"aliyun.com/gpu-mem": units}
    found = read(capacity)
    assert found.cards == ()
    assert found.closed is None


@pytest.mark.parametrize("count", [0, "0", None])
def test_units_without_a_number_of_gpus_close_the_node_instead_of_guessing_a_size(count: object) -> None:
    capacity: dict[str, object] = {"aliyun.com/gpu-mem": "28"}
    found = read(capacity if count is None else capacity | {"aliyun.com/gpu-count": count})
    assert found.cards == ()
    assert why(found) == NO_COUNT


@pytest.mark.parametrize(
    ("count", "shown"), [("1E", 10**18), ("1000000000", 10**9), (10**12, 10**12), ("-1", -1)]
)
def test_a_count_that_no_machine_has_excludes_the_node_and_fills_no_memory(count: object, shown: int) -> None:
    found = read({"aliyun.com/gpu-mem": "28E", "aliyun.com/gpu-count": count})
    assert found.cards == ()
    assert f"aliyun.com/gpu-count={shown} GPUs: no GPU size" in why(found)


@pytest.mark.parametrize("key", ["aliyun.com/gpu-mem", "aliyun.com/gpu-count"])
@pytest.mark.parametrize("value", ["a lot", "", None, 14.5, True, ["14"]])
def test_capacity_that_cannot_be_read_excludes_the_node(key: str, value: object) -> None:
    found = read(T4_PAIR | {key: value})
    assert found.cards == ()
    assert why(found).startswith("capacity: quantity ")


@pytest.mark.parametrize("text", ["", "junk", '[{"index":0}]', '[{"index":0,"units":-1}]', "{}"])
def test_a_list_of_gpus_that_cannot_be_read_excludes_the_node_instead_of_falling_back(text: str) -> None:
    found = read(cards=text)
    assert found.cards == ()
    assert why(found).startswith("annotation gpushare.io/cards: ")


def test_an_empty_list_of_gpus_means_none() -> None:
    assert read(cards="[]").cards == ()


def test_a_node_without_labels_shares() -> None:
    assert read().mode is Mode.SHARE


@pytest.mark.parametrize("mode", ["share", "cgpu", "core_mem", "mps"])
def test_these_modes_share(mode: str) -> None:
    found = labelled({LABEL_MODE: mode})
    assert (found.mode, found.closed) == (Mode(mode), None)


def test_the_older_ack_label_requests_isolation_unless_the_later_one_is_set() -> None:
    assert labelled({"cgpu": "true"}).mode is Mode.CGPU
    assert labelled({"gpushare": "true"}).mode is Mode.SHARE
    assert labelled({"cgpu": "true", LABEL_MODE: "share"}).mode is Mode.SHARE


@pytest.mark.parametrize("mode", ["default", "topology"])
def test_these_modes_allocate_whole_gpus(mode: str) -> None:
    assert why(labelled({LABEL_MODE: mode})) == f"label ack.node.gpu.schedule={mode} means whole GPUs"


@pytest.mark.parametrize("mode", ["", "Share", "vgpu"])
def test_an_unknown_mode_excludes_the_node_and_is_repeated(mode: str) -> None:
    found = why(labelled({LABEL_MODE: mode}))
    assert found.startswith(f"label ack.node.gpu.schedule={mode!r} is not one of default, topology, share")


@pytest.mark.parametrize("key", ["gpushare", "cgpu"])
def test_the_aliyun_labels_make_a_node_unschedulable_only_with_false(key: str) -> None:
    assert why(labelled({key: "false"})) == f"label {key}=false"
    assert labelled({key: "true"}).closed is None
    assert labelled({key: "False"}).closed is None


@pytest.mark.parametrize("key", ["gpushare", "cgpu"])
def test_the_mode_label_overrides_the_aliyun_labels(key: str) -> None:
    assert labelled({LABEL_MODE: "share", key: "false"}).closed is None


@pytest.mark.parametrize(
    ("mode", "percent"), [("share", 0), ("cgpu", 0), ("core_mem", 100), ("mps", 100), ("default", 0)]
)
def test_compute_is_divided_only_where_the_mode_does_it(mode: str, percent: int) -> None:
    assert labelled({LABEL_MODE: mode}).core_per_card == percent


def test_an_unschedulable_node_keeps_its_gpus_for_its_pods() -> None:
    assert len(labelled({"gpushare": "false"}).cards) == 2


def test_the_placement_label_is_carried() -> None:
    assert labelled({"ack.node.gpu.placement": "spread"}).placement == "spread"
    assert read().placement is None


def test_the_agents_annotation_is_carried() -> None:
    found = node_of("n", capacity=T4_PAIR, assigned_text='{"a":{"main":{"1":4}}}')
    assert (found.assigned, found.closed) == ({"a": {1: 4}}, None)


@pytest.mark.parametrize("text", ["", "junk", "[]", '{"a":{"main":{"x":4}}}'])
def test_an_assignment_that_cannot_be_read_excludes_the_node(text: str) -> None:
    found = node_of("n", capacity=T4_PAIR, assigned_text=text)
    assert found.assigned == {}
    assert why(found) == "its annotation gpushare.io/assigned cannot be read"


def test_the_label_is_reported_before_a_malformed_annotation() -> None:
    found = node_of("n", capacity=T4_PAIR, labels={"gpushare": "false"}, cards_text="junk")
    assert why(found) == "label gpushare=false"
    found = node_of("n", capacity=T4_PAIR, labels={"gpushare": "false"}, assigned_text="junk")
    assert why(found) == "label gpushare=false"


def test_the_full_name_of_a_pod_is_what_kubectl_users_type() -> None:
    assert pod("uid-1", name="web-0").full_name == "default/web-0"
