import json
from dataclasses import replace

from gpushare.contract import ANN_ALLOCATION, ANN_ASSIGNED, ANN_ASSUME_TIME, ANN_IDX
from gpushare.deviceplugin.core.decision import Allocated, with_allocation
from gpushare.deviceplugin.core.pod_patches import assigned_text, pod_patches
from gpushare.deviceplugin.core.reconcile import ServedContainer, join
from gpushare.model.annotations import parse_assigned
from gpushare.model.demand import demand_of
from tests.support.builders.gpu_pods import allocations, asked, cards, gpu_pod, served, with_gpu_pods
from tests.support.builders.scheduling import init, main, sound


def test_a_pod_on_the_gpu_of_its_annotations_is_in_the_node_annotation_too() -> None:
    """Its owner can edit its annotations, and a restarted extender would then count it on every GPU."""
    node = served(with_gpu_pods(allocations(14), gpu_pod("a", 4, card=0)), "a", 4, "x")
    assert json.loads(assigned_text(node)) == {"a": {"main": {"0": 4}}}


def test_a_pod_without_annotations_stays_in_the_node_annotation() -> None:
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", 4)), "a", 4, "x")
    assert json.loads(assigned_text(node)) == {"a": {"main": {"0": 4}}}
    corrected = with_gpu_pods(node, gpu_pod("a", 4, card=0))
    assert json.loads(assigned_text(corrected)) == {"a": {"main": {"0": 4}}}


def test_the_sum_per_gpu_is_what_the_pod_reserves() -> None:
    asks = sound(demand_of([init(5), main(2), main(2, name="second")]))
    node = with_gpu_pods(allocations(14), gpu_pod("a", asks))
    node = served(node, "a", 5, "x", "init")
    assert parse_assigned(assigned_text(node)) == {"a": {0: 5}}
    for name, done in (("main", {"init"}), ("second", {"init", "main"})):
        decision = asked(node, 2, name, frozenset(("a", each) for each in done))
        assert isinstance(decision, Allocated)
        entries = [
            ServedContainer("a", each, "x" if each == "init" else each, 5 if each == "init" else 2)
            for each in done
        ]
        node = join(with_allocation(node, decision.allocation), entries)
        assert parse_assigned(assigned_text(node)) == {"a": {0: 5}}


def test_a_served_pod_gets_an_annotation() -> None:
    node = served(with_gpu_pods(allocations(14), gpu_pod("a", 4, card=0)), "a", 4, "x")
    ((_, patch),) = pod_patches(node).values()
    assert patch == {ANN_ASSIGNED: "true", ANN_ASSUME_TIME: "1"}


def test_a_pod_with_that_annotation_needs_no_patch() -> None:
    node = served(with_gpu_pods(allocations(14), replace(gpu_pod("a", 4, card=0), served=True)), "a", 4, "x")
    assert pod_patches(node) == {}


def test_a_pod_on_another_gpu_has_its_annotations_corrected() -> None:
    node = with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=0))
    node = join(node, [ServedContainer("a", "main", "x", 4, cards=("GPU-1",))])
    ((_, patch),) = pod_patches(node).values()
    assert patch[ANN_IDX] == "1"
    assert json.loads(patch[ANN_ALLOCATION] or "") == {"0": {"1": 4}}
    assert patch[ANN_ASSIGNED] == "true"


def test_nothing_is_written_before_the_kubelet_has_confirmed_the_pod() -> None:
    node = with_gpu_pods(allocations(14), gpu_pod("a", 4))
    decision = asked(node, 4, "x")
    assert isinstance(decision, Allocated)
    assert pod_patches(with_allocation(node, decision.allocation)) == {}


def test_a_pod_with_a_missing_gpu_is_annotated_with_none() -> None:
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=1)), "a", 4, "x")
    assert assigned_text(replace(node, cards=cards(14))) == "{}"
