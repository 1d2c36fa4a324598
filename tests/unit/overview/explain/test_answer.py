"""Answers about pods: their state, the reason of each node and GPU, and the remedies."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gpushare.cli.explain.render import answer_document, text
from gpushare.contract import ANN_USE_MODELS
from gpushare.model.cards import Card
from gpushare.model.demand import Malformed
from gpushare.model.gpu_choice import gpu_choice
from gpushare.model.modes import Mode
from gpushare.model.objects import Node, Pod
from gpushare.overview.explain.answer import Answer, PodFacts, PodState, answer
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.scheduling.snapshot import books_of
from tests.support.builders.scheduling import demand, node, pod, unmanaged

Status = dict[str, Any]
UNPLACED: Status = {
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: cpu"}]
}


def explained(
    who: Pod,
    *things: Node | Pod,
    status: Status | None = None,
    spec: Status | None = None,
    objects: dict[str, Status] | None = None,
    unhealthy: dict[str, frozenset[int]] | None = None,
) -> Answer:
    """The answer about a pod in a cluster of these nodes and pods; ``objects`` are API objects of nodes."""
    nodes = [each for each in things if isinstance(each, Node)]
    pods = [each for each in things if isinstance(each, Pod)]
    details = msgspec.convert({"status": status or {}, "spec": spec or {}}, ClusterPod)
    found = {each.name: api_node(each.name, (objects or {}).get(each.name, {})) for each in nodes}
    return answer(PodFacts(who, details, books_of(nodes, [who, *pods], unhealthy or {}), found))


def api_node(name: str, fields: Status) -> ClusterNode:
    meta: Status = {"name": name, **fields.get("metadata", {})}
    return msgspec.convert({**fields, "metadata": meta}, ClusterNode)


def whole_gpus(labels: dict[str, str]) -> Status:
    """A node that offers two whole GPUs."""
    return {"metadata": {"labels": labels}, "status": {"allocatable": {"nvidia.com/gpu": "2"}}}


def kinds(found: Answer) -> list[str]:
    return [each.kind for each in found.remedies]


def test_a_pod_that_needs_more_than_is_free() -> None:
    found = explained(pod("big", 8), node("n", 14), pod("a", 10, at="n", card=0), status=UNPLACED)
    assert found.state is PodState.NO_GPU
    assert found.nodes[0].reason == (
        "Insufficient GPU Memory in one device: asked 8, at most 4 of 14 free on GPU 0"
    )
    assert found.nodes[0].cards[0].verdict == "asked 8"
    assert kinds(found) == ["evict", "add-node"]
    evict, add = found.remedies
    assert evict.pods == ("default/a",)
    assert evict.command == "kubectl delete pod -n default a"
    assert add.text == "add a node with a GPU of at least 8 units"
    assert "0/1 nodes are available: cpu" in text(found)


def test_the_summary_names_the_largest_free_block_that_is_too_small() -> None:
    used = pod("a", 10, at="n", card=0), pod("b", 5, at="m", card=0)
    found = explained(pod("big", 12), node("n", 14), node("m", 14), *used)
    assert found.summary == (
        "it requests 12 units of aliyun.com/gpu-mem on one GPU; the largest free block is 9 units (node m)"
    )


def test_annotations_that_exclude_gpus_are_named() -> None:
    choice = gpu_choice(((ANN_USE_MODELS, "H100"),), "default")
    wanted = replace(demand(2), gpus=choice)
    t4 = Node("n", (Card(0, 14, uuid="GPU-a", model="Tesla T4"),))
    found = explained(pod("p", wanted), t4)
    annotation = "annotation gpushare.io/use-gpu-models=H100"
    assert found.summary == (
        f"it requests 2 units of aliyun.com/gpu-mem on one GPU, by {annotation}, and no node has them"
    )
    assert found.details == (f"{annotation}: no GPU of the cluster is one; there are Tesla T4",)
    assert found.nodes[0].reason == f"{annotation}: the node has no such GPU (GPU 0 is Tesla T4 GPU-a)"
    assert found.nodes[0].cards[0].verdict == f"excluded by {annotation}"
    assert found.remedies[-1].text == f"add a node with a GPU of at least 2 units, as {annotation} allows"


def test_the_summary_names_no_block_if_nothing_is_free() -> None:
    found = explained(pod("big", 2), node("n", 14), pod("a", 14, at="n", card=0))
    assert found.summary == "it requests 2 units of aliyun.com/gpu-mem on one GPU, and no node has them"


def test_the_least_pods_of_one_gpu_are_evicted() -> None:
    pods = [pod("a", 7, at="n", card=0), pod("b", 7, at="n", card=0), pod("c", 12, at="n", card=1)]
    found = explained(pod("big", 6), node("n", 14, 14), *pods)
    evict = next(each for each in found.remedies if each.kind == "evict")
    assert len(evict.pods) == 1


def test_a_pod_that_is_larger_than_every_gpu() -> None:
    found = explained(pod("big", 18), node("n", 14, 14))
    assert found.nodes[0].cards[0].verdict == "too small, asked 18"
    assert kinds(found) == ["shrink", "spread", "add-node"]
    assert found.remedies[0].units == 14
    assert found.remedies[1].gpus == 2
    assert 'aliyun.com/gpu-count: "2"' in found.remedies[1].text


@pytest.mark.parametrize(("units", "is_remedy"), [(16, True), (17, False)])
def test_a_smaller_request_is_a_remedy_down_to_three_quarters(units: int, is_remedy: bool) -> None:  # noqa: FBT001
    found = explained(pod("big", units), node("n", 12))
    assert ("shrink" in kinds(found)) is is_remedy


def test_a_terminating_pod_frees_the_units() -> None:
    found = explained(pod("big", 14), node("n", 14), pod("a", 4, at="n", card=0, terminating=True))
    assert "wait until the terminating pods of node n are gone: default/a (4 units of GPU 0)" in text(found)


def test_a_cordoned_gpu() -> None:
    objects = {"n": {"metadata": {"annotations": {"gpushare.io/cordoned-cards": "0,1"}}}}
    found = explained(pod("big", 14), node("n", 14, 10, broken=(0, 1)), objects=objects)
    assert found.nodes[0].cards[0].verdict == "cordoned"
    restore = next(each for each in found.remedies if each.kind == "restore-gpus")
    assert restore.text == "uncordon GPU 0 of node n"
    assert restore.command == "kubectl annotate node n gpushare.io/cordoned-cards=1 --overwrite"


def test_an_unhealthy_gpu() -> None:
    found = explained(pod("big", 14), node("n", 14), unhealthy={"n": frozenset({0})})
    assert found.nodes[0].cards[0].verdict == "unhealthy"
    restore = next(each for each in found.remedies if each.kind == "restore-gpus")
    assert restore.text == "repair GPU 0 of node n, which is unhealthy"
    assert "unhealthy-gpu-n" in restore.command


def test_a_gpu_in_use_as_a_whole() -> None:
    found = explained(pod("big", 4), node("n", 14, whole={0: ("default/app",)}))
    assert found.nodes[0].cards[0].verdict == "unschedulable until default/app is gone, which has a whole GPU"
    end = next(each for each in found.remedies if each.kind == "end-whole-gpu-pods")
    assert end.command == "kubectl delete pod -n default app"


def test_an_over_committed_gpu() -> None:
    pods = [pod("a", 10, at="n", card=0), pod("b", 10, at="n", card=0)]
    assert explained(pod("c", 1), node("n", 14), *pods).nodes[0].cards[0].verdict == "over-committed"


def test_a_mode_without_compute() -> None:
    found = explained(pod("c", demand(4, core=20)), node("n", 14))
    change = next(each for each in found.remedies if each.kind == "change-mode")
    assert change.command == "kubectl label node n ack.node.gpu.schedule=core_mem --overwrite"
    assert "ack.node.gpu.schedule=core_mem" in found.remedies[-1].text


def test_the_compute_of_a_gpu_is_used_up() -> None:
    a = pod("a", demand(1, core=90), at="n", card=0)
    found = explained(pod("c", demand(1, core=20)), node("n", 14, mode=Mode.CORE_MEM), a)
    assert found.nodes[0].cards[0].verdict == "asked 20 % of compute, 10 % free"


def test_another_user_has_the_gpu() -> None:
    a = pod("a", demand(1, user=2000), at="n", card=0)
    found = explained(pod("c", demand(1, user=1000)), node("n", 14, mode=Mode.MPS), a)
    assert found.nodes[0].cards[0].verdict == "serves another user"


def test_a_node_with_whole_gpus_can_share_them() -> None:
    objects = {"n": {"status": {"allocatable": {"nvidia.com/gpu": "2"}}}}
    found = explained(pod("c", 4), node("n"), objects=objects)
    share = found.remedies[0]
    assert share.kind == "share-node"
    assert not share.verified
    assert "Node n: it shares no GPUs" in text(found)


@pytest.mark.parametrize(
    ("labels", "changes"),
    [
        ({}, "cgpu=true"),
        ({"gpushare": "false"}, "cgpu=true gpushare-"),
        ({"cgpu": "false"}, "cgpu=true"),
        ({"ack.node.gpu.schedule": "default"}, "cgpu=true ack.node.gpu.schedule=cgpu"),
        ({"ack.node.gpu.schedule": "topology", "cgpu": "false"}, "cgpu=true ack.node.gpu.schedule=cgpu"),
        ({"ack.node.gpu.schedule": "typo"}, "cgpu=true ack.node.gpu.schedule=cgpu"),
        (
            {"nvidia.com/gpu.deploy.device-plugin": "true"},
            "cgpu=true nvidia.com/gpu.deploy.device-plugin=false",
        ),
    ],
)
def test_the_labels_that_share_a_node_with_whole_gpus(labels: dict[str, str], changes: str) -> None:
    found = explained(pod("c", 4), node("n"), objects={"n": whole_gpus(labels)})
    assert found.remedies[0].command == f"kubectl label node n {changes} --overwrite"


def test_a_pod_with_compute_needs_a_node_that_divides_compute() -> None:
    found = explained(pod("c", demand(4, core=20)), node("n"), objects={"n": whole_gpus({"cgpu": "false"})})
    assert found.remedies[0].command == (
        "kubectl label node n cgpu=true ack.node.gpu.schedule=core_mem --overwrite"
    )


@pytest.mark.parametrize(
    "labels", [{"gpushare": "true"}, {"cgpu": "true"}, {"ack.node.gpu.schedule": "core_mem"}]
)
def test_no_label_helps_a_node_that_is_already_to_share(labels: dict[str, str]) -> None:
    """Another device plugin runs there."""
    assert kinds(explained(pod("c", 4), node("n"), objects={"n": whole_gpus(labels)})) == ["add-node"]


@pytest.mark.parametrize(
    "spec", [{"unschedulable": True}, {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}]
)
def test_a_node_that_excludes_the_pod_is_not_to_share(spec: Status) -> None:
    objects = {"n": whole_gpus({}) | {"spec": spec}}
    assert kinds(explained(pod("c", 4), node("n"), objects=objects)) == ["add-node"]


def test_the_label_that_a_pod_selects_may_be_the_one_that_is_missing() -> None:
    objects = {"n": whole_gpus({}), "o": whole_gpus({})}
    found = explained(pod("c", 4), node("n"), objects=objects, spec={"nodeSelector": {"cgpu": "true"}})
    assert kinds(found) == ["share-node", "add-node"]
    found = explained(pod("c", 4), node("n"), objects=objects, spec={"nodeSelector": {"zone": "x"}})
    assert kinds(found) == ["add-node"]


def test_gpus_are_free_and_the_scheduler_has_another_reason() -> None:
    found = explained(pod("c", 4), node("n", 14), status=UNPLACED)
    assert found.state is PodState.OTHER
    assert found.summary == "node n has free units for it (it fits on GPU 0), but it has no node yet"
    assert found.scheduler == "0/1 nodes are available: cpu"


def test_no_scheduler_has_reported() -> None:
    found = explained(pod("c", 4), node("n", 14), spec={"schedulerName": "mine"})
    assert "check that mine runs" in found.details[0]


@pytest.mark.parametrize(
    ("spec", "obstacle"),
    [
        ({"unschedulable": True}, "node n is cordoned"),
        ({"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}, "does not tolerate the taint a=b"),
        ({}, "node n has no label zone"),
    ],
)
def test_free_gpus_on_a_node_that_excludes_the_pod(spec: Status, obstacle: str) -> None:
    selector = {} if spec else {"nodeSelector": {"zone": "x"}}
    found = explained(pod("c", 4), node("n", 14), spec=selector, objects={"n": {"spec": spec}})
    assert found.state is PodState.OTHER
    assert obstacle in found.summary


def test_no_pod_is_to_be_evicted_from_a_node_that_the_affinity_excludes() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pods = [pod("a", 4, at="n", card=0), pod("b", 4, at="o", card=0)]
    nodes = [node("n", 4), node("o", 4)]
    spec = {"affinity": {"nodeAffinity": required}}
    objects: dict[str, Status] = {name: {"metadata": {"name": name}} for name in ("n", "o")}
    found = explained(pod("big", 4), *nodes, *pods, spec=spec, objects=objects)
    assert "the node does not meet the node affinity of the pod" in text(found)
    assert [each.node for each in found.remedies if each.kind == "evict"] == ["n"]


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "a", "operator": "Exists"},
        {"key": "a", "value": "b", "effect": "NoSchedule"},
    ],
)
def test_a_tolerated_taint_excludes_no_pod(toleration: Status) -> None:
    taints = [{"key": "a", "value": "b", "effect": "NoSchedule"}, {"key": "c", "effect": "PreferNoSchedule"}]
    found = explained(
        pod("c", 4),
        node("n", 14),
        spec={"tolerations": [toleration]},
        objects={"n": {"spec": {"taints": taints}}},
    )
    assert not found.nodes[0].obstacles


@pytest.mark.parametrize(
    ("who", "status", "spec", "state", "words"),
    [
        (unmanaged("a"), {}, {}, PodState.UNMANAGED, "gpushare does not place it"),
        (pod("a", Malformed("limit x")), {}, {}, PodState.MALFORMED, "its request is invalid: limit x"),
        (pod("a", 4, terminating=True), {}, {}, PodState.TERMINATING, "being deleted"),
        (pod("a", 4), {}, {"schedulingGates": [{"name": "g"}]}, PodState.GATED, "removed: g"),
        (pod("a", 4), {"phase": "Failed", "reason": "Evicted"}, {}, PodState.FINISHED, "Evicted"),
        (pod("a", 4, at="n", card=0), {}, {}, PodState.BOUND, "it has node n with 4 units of GPU 0"),
        (pod("a", 4, at="n"), {}, {}, PodState.BOUND, "its GPU is not known yet"),
        (pod("a", 4, at="gone"), {}, {}, PodState.BOUND, "it has node gone"),
    ],
)
def test_pods_that_no_gpu_keeps_waiting(
    who: Pod, status: Status, spec: Status, state: PodState, words: str
) -> None:
    found = explained(who, node("n", 14), status=status, spec=spec)
    assert found.state is state
    assert words in text(found)


def test_a_bound_pod_whose_container_waits() -> None:
    waiting = {
        "name": "main",
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
    }
    found = explained(pod("a", 4, at="n", card=0), node("n", 14), status={"containerStatuses": [waiting]})
    assert "container main: ImagePullBackOff: no such image" in text(found)


def test_without_the_right_to_list_nodes_the_scheduler_is_quoted() -> None:
    details = msgspec.convert({"status": UNPLACED}, ClusterPod)
    found = answer(PodFacts(pod("a", 4), details, None, notes=("this account may not list nodes",)))
    assert found.state is PodState.UNKNOWN
    assert "0/1 nodes are available: cpu" in text(found)
    assert "note: this account may not list nodes" in text(found)


def test_the_document_has_all_nodes_and_the_text_five() -> None:
    found = explained(pod("big", 20), *(node(f"n{index}", 14) for index in range(7)), node("x"))
    assert len(answer_document(found)["nodes"]) == 8
    assert answer_document(found)["state"] == "waits-for-gpu"
    assert "2 more nodes share GPUs" in text(found)


def test_of_many_nodes_that_share_nothing_five_are_shown() -> None:
    found = explained(pod("big", 20), *(node(f"n{index}") for index in range(7)))
    assert "2 more nodes share no GPUs." in text(found)


def test_a_pod_that_was_ours_and_asks_for_nothing_more() -> None:
    found = explained(replace(pod("a", 4), finished=True), node("n", 14), status={"phase": "Succeeded"})
    assert found.state is PodState.FINISHED
