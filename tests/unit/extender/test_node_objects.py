"""Requests that carry Node objects: templates of Cluster Autoscaler, and real nodes beside them."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.adapters.kube.wire import WireNode, core_node
from gpushare.contract import (
    ANN_AVOID_UUIDS,
    ANN_CARDS,
    ANN_OTHER_GPU,
    ANN_SAME_GPU,
    ANN_USE_MODELS,
    ANN_USE_UUIDS,
    LABEL_CARD_MODEL,
)
from gpushare.extender.verbs import VerbResult, filter_steps, prioritize_steps
from gpushare.model.cards import Card, format_cards
from gpushare.scheduling.events import Reserved
from gpushare.scheduling.ledger import Ledger, apply
from tests.support.builders.scheduling import cluster, demand, node, pod
from tests.support.steps import counted, finished

RECORDED = Path(__file__).parents[2] / "support/fixtures/cluster_autoscaler/filter.json"
"""What Cluster Autoscaler sends for a pod with 14 units and a template of two GPUs with 22 units each.

Recorded on 2026-11-29 from kubernetes/autoscaler#9786 (commit 303672c6 of 2026-06-12, not merged): its
``SanitizedTemplateNodeInfoFromNodeInfo`` and ``PredicateSnapshot``, with the HTTP extender of Kubernetes
1.36.0 and ``nodeCacheCapable: false``. GPU 1 of the node that was copied is unhealthy.
"""
REAL = cluster(node("real", 14), pod("a", 12, at="real", card=0))


def wire_pod(mem: object = 4, *, uid: str = "p", gpus: int = 1) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"aliyun.com/gpu-mem": str(mem)}}}
    labels = {"aliyun.com/gpu-count": str(gpus)}
    meta = {"name": "web", "namespace": "ns", "uid": uid, "labels": labels}
    return {"metadata": meta, "spec": {"containers": [container]}}


def template(
    name: str = "template",
    *,
    units: object = 28,
    gpus: object = 2,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The Node object of a group; by default with two GPUs of 14 units."""
    resources = {"cpu": "8", "aliyun.com/gpu-mem": units, "aliyun.com/gpu-count": gpus}
    stated = {key: str(value) for key, value in resources.items() if value is not None}
    return {
        "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
        "status": {"capacity": stated, "allocatable": stated},
    }


def request(asking: dict[str, Any], *nodes: Any) -> bytes:
    return json.dumps({"Pod": asking, "Nodes": {"items": nodes}, "NodeNames": None}).encode()


def filtered(asking: dict[str, Any], *nodes: Any, ledger: Ledger = REAL) -> tuple[list[str], dict[str, str]]:
    """The nodes that fit, by their objects in the answer, and the reasons of the others."""
    result = finished(filter_steps(request(asking, *nodes), ledger))
    assert (result.error, result.may_fit_soon) == ("", None)
    found = json.loads(result.answer)
    names = [each["metadata"]["name"] for each in found["Nodes"]["items"]]
    assert found["NodeNames"] == names
    assert all(each in nodes for each in found["Nodes"]["items"])
    return names, found["FailedNodes"]


# --- what a template is ----------------------------------------------------------------------------


def test_a_template_is_evaluated_from_capacity_and_count() -> None:
    assert filtered(wire_pod(14), template()) == (["template"], {})


def choosing(key: str, value: str) -> dict[str, Any]:
    asking = wire_pod()
    asking["metadata"]["annotations"] = {key: value}
    return asking


@pytest.mark.parametrize(
    ("key", "value", "fits"),
    [
        (ANN_USE_MODELS, "T4", True),
        (ANN_USE_MODELS, "A100", False),
        (ANN_USE_UUIDS, "GPU-0", False),
        (ANN_AVOID_UUIDS, "GPU-0", True),
        (ANN_SAME_GPU, "friend", False),
        (ANN_OTHER_GPU, "friend", True),
    ],
)
def test_a_new_machine_has_the_model_of_its_group_and_neither_known_gpus_nor_pods(
    key: str, value: str, *, fits: bool
) -> None:
    copied = format_cards((Card(0, 14, uuid="GPU-0", model="Tesla T4"),))
    of_group = template(labels={LABEL_CARD_MODEL: "Tesla-T4"})
    for each in (template(annotations={ANN_CARDS: copied}), of_group):
        names, reasons = filtered(choosing(key, value), each)
        assert (names == ["template"]) is fits
        assert fits or f"annotation {key}={value}" in reasons["template"]


def test_its_gpus_count_one_by_one_and_not_their_sum() -> None:
    names, reasons = filtered(wire_pod(15), template(units=28, gpus=2))
    assert names == []
    assert reasons["template"].endswith("asked 15, no GPU is that large")


def test_a_pod_may_want_several_of_its_gpus() -> None:
    assert filtered(wire_pod(28, gpus=2), template())[0] == ["template"]
    assert filtered(wire_pod(30, gpus=3), template())[0] == []


def test_the_annotation_of_a_copied_node_says_more_than_its_capacity() -> None:
    cards = format_cards((Card(0, 10), Card(1, 18)))
    assert filtered(wire_pod(18), template(annotations={"gpushare.io/cards": cards}))[0] == ["template"]


def test_the_state_of_the_copied_machine_is_not_that_of_a_new_one() -> None:
    """A new machine has other GPUs and no pods."""
    cards = format_cards(
        (
            Card(0, 14, healthy=False, whole_gpu_pods=("ns/whole",)),
            Card(1, 14, healthy=False, fault="XID 79"),
            Card(2, 14, healthy=False, closed="until its MPS control daemon is ready"),
        )
    )
    assigned = json.dumps({"uid": {"main": {"0": 14, "1": 14, "2": 14}}})
    copied = {"gpushare.io/cards": cards, "gpushare.io/assigned": assigned}
    assert filtered(wire_pod(42, gpus=3), template(annotations=copied))[0] == ["template"]


def test_a_label_has_the_number_of_gpus_where_only_one_resource_can_be_stated() -> None:
    """Cluster API: ``gpu-type`` and ``gpu-count`` describe one resource, ``labels`` any label."""
    labels = {"aliyun.accelerator/nvidia_count": "2"}
    assert filtered(wire_pod(14), template(gpus=None, labels=labels))[0] == ["template"]
    assert filtered(wire_pod(15), template(gpus=None, labels=labels))[0] == []


def test_an_unconfirmed_bind_keeps_a_pod_from_new_nodes() -> None:
    ledger = apply(REAL, Reserved(pod("p"), demand(), "real", ((0, demand().per_card),)))
    assert filtered(wire_pod(), template(), ledger=ledger) == (
        [],
        {"template": "a bind of this pod to node real is not confirmed yet"},
    )


# --- Cluster Autoscaler ------------------------------------------------------------------------------


def test_a_recorded_request_of_cluster_autoscaler_is_answered_with_its_template() -> None:
    recorded = json.loads(RECORDED.read_bytes())
    (node_object,) = recorded["Nodes"]["items"]
    assert filtered(recorded["Pod"], node_object) == ([node_object["metadata"]["name"]], {})


def test_its_request_names_no_pod_that_it_has_placed_on_the_template_before() -> None:
    """So each pod is evaluated as the first one; Cluster Autoscaler compares the sums itself."""
    recorded = json.loads(RECORDED.read_bytes())
    assert set(recorded) == {"Pod", "Nodes", "NodeNames"}
    for uid in ("first", "second", "third"):
        recorded["Pod"]["metadata"]["uid"] = uid
        assert filtered(recorded["Pod"], *recorded["Nodes"]["items"])[0]


# --- bad templates ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (template("bad", units=None), "is not for GPU share"),
        (template("bad", gpus=None), "without aliyun.com/gpu-count"),
        (template("bad", gpus=0), "without aliyun.com/gpu-count"),
        (template("bad", gpus=10**9), "no GPU size"),
        (template("bad", units="4Xi"), "4Xi"),
        (template("bad", gpus=None, labels={"aliyun.accelerator/nvidia_count": "two"}), "two"),
        (template("bad", labels={"ack.node.gpu.schedule": "default"}), "means whole GPUs"),
        (template("bad", annotations={"gpushare.io/cards": "[}"}), "annotation gpushare.io/cards"),
        (template("bad", annotations={"gpushare.io/closed": "no library"}), "no library"),
        ({"metadata": {"name": "bad"}}, "is not for GPU share"),
        ({"metadata": {"name": "bad"}, "status": 7}, "this Node object cannot be read"),
        (template("bad", annotations={"a": "x" * 1_600_000}), "has more than 1572864 bytes"),
    ],
)
def test_a_bad_template_refuses_itself_and_no_other(bad: dict[str, Any], reason: str) -> None:
    names, reasons = filtered(wire_pod(), template("good"), bad)
    assert (names, list(reasons)) == (["good"], ["bad"])
    assert reason in reasons["bad"]


@pytest.mark.parametrize("nameless", [7, None, [], {}, {"metadata": 7}, {"metadata": {"name": 7}}])
def test_an_object_without_a_name_is_left_out(nameless: Any) -> None:
    assert filtered(wire_pod(), nameless, template("good")) == (["good"], {})


def test_a_pod_without_units_fits_on_every_template() -> None:
    assert filtered(wire_pod(0), template("bad", units=None), template("good"))[0] == ["bad", "good"]


# --- nodes that the ledger knows -------------------------------------------------------------------


def test_of_a_real_node_the_ledger_decides_and_not_its_object() -> None:
    names, reasons = filtered(wire_pod(), template("real", units=140, gpus=1), template())
    assert (names, list(reasons)) == (["template"], ["real"])


def test_pods_that_are_known_on_a_node_without_object_count() -> None:
    ledger = cluster(pod("a", 12, at="gone", card=0))
    assert filtered(wire_pod(), template("gone", units=14, gpus=1), ledger=ledger)[0] == []
    assert filtered(wire_pod(2), template("gone", units=14, gpus=1), ledger=ledger)[0] == ["gone"]


def test_a_bound_pod_is_evaluated_as_if_it_moved() -> None:
    """Cluster Autoscaler removes a node only if its pods fit elsewhere."""
    ledger = cluster(node("real", 14), node("other", 14), pod("a", 12, at="real", card=0))
    names, _ = filtered(wire_pod(12, uid="a"), template("other"), ledger=ledger)
    assert names == ["other"]


def test_who_sends_names_gets_names_and_no_template() -> None:
    body = json.dumps({"Pod": wire_pod(), "NodeNames": ["template"]}).encode()
    found = json.loads(finished(filter_steps(body, REAL)).answer)
    assert (found["Nodes"], found["FailedNodes"]) == (None, {"template": "node not found"})


# --- prioritize and size ---------------------------------------------------------------------------


def test_templates_have_scores_beside_real_nodes() -> None:
    fits = cluster(node("real", 14))
    result: VerbResult = finished(
        prioritize_steps(request(wire_pod(10), template("real"), template(units=20, gpus=1)), fits)
    )
    assert json.loads(result.answer) == [{"Host": "real", "Score": 2}]


def test_many_whole_nodes_are_read_in_steps_and_known_ones_not_at_all() -> None:
    unreadable = [{"metadata": {"name": f"n{i}"}, "status": 7} for i in range(2000)]
    known = cluster(*(node(f"n{i}", 14) for i in range(2000)))
    steps, result = counted(filter_steps(request(wire_pod(), *unreadable), known))
    assert len(json.loads(result.answer)["NodeNames"]) == 2000
    assert steps >= 10
    steps, _ = counted(filter_steps(request(wire_pod(), *(template(f"t{i}") for i in range(2000))), REAL))
    assert steps >= 50


# --- the same answer as for a real node -----------------------------------------------------------


@given(
    units=st.lists(st.integers(0, 24), min_size=1, max_size=4),
    asks=st.integers(1, 60),
    gpus=st.integers(1, 4),
    mode=st.sampled_from(["share", "cgpu", "core_mem", "mps"]),
)
def test_a_template_takes_the_pods_that_an_empty_node_like_it_takes(
    units: list[int], asks: int, gpus: int, mode: str
) -> None:
    cards = format_cards(tuple(Card(index, size) for index, size in enumerate(units)))
    example = template(
        units=sum(units) or 1,
        labels={"ack.node.gpu.schedule": mode},
        annotations={"gpushare.io/cards": cards},
    )
    asking = wire_pod(asks, gpus=gpus)
    real = cluster(core_node(msgspec.convert(example, WireNode)))
    by_name = json.dumps({"Pod": asking, "NodeNames": ["template"]}).encode()
    expected = json.loads(finished(filter_steps(by_name, real)).answer)
    assert filtered(asking, example) == (expected["NodeNames"], expected["FailedNodes"])
