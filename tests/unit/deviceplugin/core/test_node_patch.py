"""The desired state of the node's object, and the patch that leads to it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from gpushare.contract import (
    ANN_ASSIGNED_NODE,
    ANN_CARDS,
    LABEL_CARD_COUNT,
    LABEL_CARD_MIB,
    LABEL_CARD_MODEL,
    LABEL_UNLISTED,
    RESOURCE_COUNT,
)
from gpushare.deviceplugin.core.node_patch import DesiredNode, applied, desired_node, patch, without_labels
from gpushare.deviceplugin.core.shared_gpus import ExcludedGpu, SharedGpus
from gpushare.model.cards import Card, parse_cards
from gpushare.model.local_node import LocalNode
from gpushare.model.options import MemoryUnit

CARDS = (Card(0, 14, "GPU-a", "Tesla T4", 15079), Card(1, 14, "GPU-b", "Tesla T4", 15079, healthy=False))
SHARED = SharedGpus(MemoryUnit.GIB, CARDS)
BARE = LocalNode("n", labels={"cgpu": "true"}, annotations={"theirs": "x"}, capacity={"nvidia.com/gpu": 0})
ASSIGNED = '{"uid":{"main":{"0":4}}}'


def test_a_serving_node_shows_gpus_labels_and_their_number() -> None:
    want = desired_node(SHARED, ASSIGNED)
    assert parse_cards(want.annotations[ANN_CARDS] or "") == CARDS
    assert want.annotations[ANN_ASSIGNED_NODE] == ASSIGNED
    assert want.labels == {
        LABEL_CARD_MODEL: "Tesla-T4",
        LABEL_CARD_MIB: "15079MiB",
        LABEL_CARD_COUNT: "2",
        LABEL_UNLISTED: None,
    }
    assert want.resources == {RESOURCE_COUNT: 2}


def test_the_label_counts_all_gpus_of_the_machine_and_the_resource_those_that_are_shared() -> None:
    want = desired_node(SharedGpus(MemoryUnit.GIB, CARDS, (ExcludedGpu(2, "NVIDIA A30", "MIG"),)), "{}")
    assert (want.labels[LABEL_CARD_COUNT], want.resources[RESOURCE_COUNT]) == ("3", 2)


def test_an_unlisted_model_has_a_label() -> None:
    want = desired_node(SharedGpus(MemoryUnit.GIB, CARDS, (), ("NVIDIA TITAN Xp",)), "{}")
    assert want.labels[LABEL_UNLISTED] == "NVIDIA-TITAN-Xp"


def test_a_node_without_a_gpu_to_share_has_no_model() -> None:
    want = desired_node(SharedGpus(MemoryUnit.GIB, (), (ExcludedGpu(0, "NVIDIA A30", "MIG"),)), "{}")
    assert (want.labels[LABEL_CARD_MODEL], want.labels[LABEL_CARD_MIB]) == (None, None)
    assert want.labels[LABEL_CARD_COUNT] == "1"


def test_a_node_that_does_not_serve_withdraws_all_but_the_assignments() -> None:
    shown = applied(BARE, patch(BARE, desired_node(SHARED, ASSIGNED)) or {})
    merge = patch(shown, desired_node(None, ASSIGNED))
    assert merge == {
        "metadata": {"annotations": {ANN_CARDS: None}},
        "status": {"capacity": {RESOURCE_COUNT: None}, "allocatable": {RESOURCE_COUNT: None}},
    }


def test_one_patch_carries_metadata_and_status() -> None:
    merge = patch(BARE, desired_node(SHARED, "{}"))
    assert merge is not None
    assert set(merge) == {"metadata", "status"}
    assert merge["status"] == {"capacity": {RESOURCE_COUNT: 2}, "allocatable": {RESOURCE_COUNT: 2}}
    assert json.loads(merge["metadata"]["annotations"][ANN_CARDS])[1]["healthy"] is False


def test_only_what_differs_is_patched() -> None:
    shown = applied(BARE, patch(BARE, desired_node(SHARED, "{}")) or {})
    assert patch(shown, desired_node(SHARED, ASSIGNED)) == {
        "metadata": {"annotations": {ANN_ASSIGNED_NODE: ASSIGNED}}
    }


def test_resources_that_the_kubelet_reset_are_patched_again() -> None:
    want = desired_node(SHARED, "{}")
    shown = applied(BARE, patch(BARE, want) or {})
    zeroed = applied(shown, {"status": {"capacity": {RESOURCE_COUNT: 0}, "allocatable": {RESOURCE_COUNT: 0}}})
    assert patch(zeroed, want) == {
        "status": {"capacity": {RESOURCE_COUNT: 2}, "allocatable": {RESOURCE_COUNT: 2}}
    }


def test_a_label_that_must_not_be_there_is_removed() -> None:
    shown = LocalNode("n", labels={LABEL_UNLISTED: "old"})
    assert patch(shown, DesiredNode(labels={LABEL_UNLISTED: None})) == {
        "metadata": {"labels": {LABEL_UNLISTED: None}}
    }


def test_labels_can_be_left_alone() -> None:
    want = desired_node(SHARED, "{}")
    merge = patch(BARE, want, labels=False)
    assert merge == without_labels(patch(BARE, want) or {})
    assert "labels" not in (merge or {})["metadata"]
    assert patch(applied(BARE, merge or {}), want, labels=False) is None
    assert without_labels({"metadata": {"labels": {"a": "b"}}}) == {}


keys = st.sampled_from(["a", "b", "c"])
texts = st.dictionaries(keys, st.text(max_size=3))
numbers = st.dictionaries(keys, st.integers(0, 9))
shown_nodes = st.builds(
    LocalNode, st.just("n"), st.just("u"), texts, texts, capacity=numbers, allocatable=numbers
)
wishes = st.builds(
    DesiredNode,
    annotations=st.dictionaries(keys, st.none() | st.text(max_size=3)),
    labels=st.dictionaries(keys, st.none() | st.text(max_size=3)),
    resources=st.dictionaries(keys, st.none() | st.integers(0, 9)),
)


def agrees(shown: LocalNode, want: DesiredNode) -> bool:
    return all(
        have.get(key) == value
        for have, wish in (
            (shown.annotations, want.annotations),
            (shown.labels, want.labels),
            (shown.capacity, want.resources),
            (shown.allocatable, want.resources),
        )
        for key, value in wish.items()
    )


@given(shown_nodes, wishes)
def test_the_patch_produces_the_desired_node_and_no_further_patch(
    shown: LocalNode, want: DesiredNode
) -> None:
    merge = patch(shown, want)
    assert (merge is None) == agrees(shown, want)
    after = applied(shown, merge or {})
    assert agrees(after, want)
    assert patch(after, want) is None


@given(shown_nodes, wishes)
def test_the_patch_touches_no_key_of_others(shown: LocalNode, want: DesiredNode) -> None:
    after = applied(shown, patch(shown, want) or {})
    for key in shown.labels.keys() - want.labels.keys():
        assert after.labels[key] == shown.labels[key]
    assert after.capacity.keys() - want.resources.keys() == shown.capacity.keys() - want.resources.keys()
