"""Which GPUs the annotations of a pod allow, in every decision: filter, bind, preemption, room, groups."""

from dataclasses import replace

import pytest

from gpushare.contract import (
    ANN_AVOID_MODELS,
    ANN_OTHER_GPU,
    ANN_SAME_GPU,
    ANN_USE_MODELS,
    ANN_USE_UUIDS,
)
from gpushare.model.cards import Card
from gpushare.model.demand import Demand
from gpushare.model.gpu_choice import gpu_choice
from gpushare.model.objects import Node, Pod
from gpushare.scheduling.advice.refusals import refusal
from gpushare.scheduling.filtering import filter_nodes
from gpushare.scheduling.fitting import PodRequest, Rejection, place
from gpushare.scheduling.groups import plan_steps
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.preemption import victims_on
from gpushare.scheduling.steps import result_of
from gpushare.scheduling.unknown_gpus import unknown_steps
from tests.support.builders.scheduling import cluster, demand, node, pod, score, seen, tried

MIXED = (Card(0, 14, uuid="GPU-a", model="Tesla T4"), Card(1, 14, uuid="GPU-b", model="NVIDIA A10"))


def wants(key: str, value: str, units: int = 4, *, cards: int = 1) -> Demand:
    choice = gpu_choice(((key, value),), "default")
    return replace(demand(units, cards=cards), gpus=choice)


def gpus(ledger: Ledger, who: Demand, name: str = "n") -> tuple[int, ...] | str:
    found = tried(ledger, pod("seeker", who), name)
    return found.text if not isinstance(found, tuple) else tuple(index for index, _ in found)


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (wants(ANN_USE_MODELS, "A10"), (1,)),
        (wants(ANN_AVOID_MODELS, "A10"), (0,)),
        (wants(ANN_USE_UUIDS, "GPU-b,GPU-c"), (1,)),
        (
            wants(ANN_USE_MODELS, "A100"),
            "annotation gpushare.io/use-gpu-models=A100: the node has no such GPU",
        ),
        (
            wants(ANN_USE_MODELS, "A10", 8, cards=2),
            "annotation gpushare.io/use-gpu-models=A10: the node has no 2 such GPUs",
        ),
        (
            wants(ANN_USE_MODELS, "A10", 15),
            (
                "Insufficient GPU Memory in one device: asked 15, annotation gpushare.io/use-gpu-models=A10, "
                "no GPU is that large"
            ),
        ),
    ],
)
def test_models_and_uuids_decide_about_the_gpu(who: Demand, expected: tuple[int, ...] | str) -> None:
    assert gpus(cluster(Node("n", MIXED)), who) == expected


def test_a_gpu_that_is_large_enough_and_excluded_does_not_count() -> None:
    book = cluster(Node("n", (*MIXED, Card(2, 40, model="NVIDIA A100")))).books["n"]
    who = PodRequest("seeker", wants(ANN_USE_MODELS, "T4, A10", 20))
    rejected = place(book, who)
    assert isinstance(rejected, Rejection)
    assert rejected.unresolvable
    assert refusal(book, who).endswith("use-gpu-models=T4, A10, the largest GPU has 14")


def test_a_gpu_that_would_fit_and_is_excluded_is_no_place() -> None:
    ledger = cluster(Node("n", MIXED), pod("full", 14, at="n", card=1))
    who = pod("seeker", wants(ANN_USE_MODELS, "A10"))
    text = "Insufficient GPU Memory in one device: asked 4, annotation gpushare.io/use-gpu-models=A10"
    assert isinstance(who.demand, Demand)
    assert gpus(ledger, who.demand) == text
    assert filter_nodes(ledger, PodRequest("seeker", who.demand), ["n"]).failed == {"n": text}
    assert refusal(ledger.books["n"], PodRequest("seeker", who.demand)) == (
        f"{text}, at most 14 of 14 free on GPU 0; the annotations exclude GPU 0"
    )


def test_the_refusal_says_what_the_node_has() -> None:
    book = cluster(Node("n", MIXED)).books["n"]
    assert refusal(book, PodRequest("seeker", wants(ANN_USE_UUIDS, "GPU-x"))) == (
        "annotation gpushare.io/use-gpu-uuids=GPU-x: the node has no such GPU "
        "(GPU 0 is Tesla T4 GPU-a; GPU 1 is NVIDIA A10 GPU-b)"
    )


def companions(*more: Pod) -> Ledger:
    """The pods a and b on GPUs 0 and 1."""
    return cluster(
        node("n", 14, 14, 14),
        pod("a", 4, at="n", card=0, labels={"app": "web"}),
        pod("b", 9, at="n", card=1, labels={"app": "db"}),
        *more,
    )


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (ANN_SAME_GPU, "a", (0,)),
        (ANN_SAME_GPU, "app=db", (1,)),
        (ANN_OTHER_GPU, "b", (0,)),
        (ANN_OTHER_GPU, "app in (web, db)", (2,)),
        (ANN_OTHER_GPU, "absent", (1,)),
        (
            ANN_SAME_GPU,
            "absent",
            "annotation gpushare.io/same-gpu-as=absent: no such pod is on the node",
        ),
    ],
)
def test_other_pods_decide_about_the_gpu(key: str, value: str, expected: tuple[int, ...] | str) -> None:
    assert gpus(companions(), wants(key, value)) == expected


def test_pods_of_another_namespace_are_not_meant() -> None:
    stranger = replace(pod("s", 4, at="n", card=2, name="a"), namespace="other")
    assert gpus(cluster(node("n", 14), stranger), wants(ANN_OTHER_GPU, "a")) == (0,)
    assert isinstance(gpus(cluster(node("n", 14), stranger), wants(ANN_SAME_GPU, "a")), str)


def test_a_pod_that_terminates_is_no_company_and_still_in_the_way() -> None:
    ledger = cluster(node("n", 14, 14), pod("a", 4, at="n", card=0, terminating=True))
    assert isinstance(gpus(ledger, wants(ANN_SAME_GPU, "a")), str)
    assert gpus(ledger, wants(ANN_OTHER_GPU, "a")) == (1,)


def test_a_pod_whose_gpu_is_not_known_may_be_on_any() -> None:
    ledger = cluster(node("n", 14, 14), pod("a", 4, at="n"))
    assert isinstance(gpus(ledger, wants(ANN_SAME_GPU, "a")), str)
    assert isinstance(gpus(ledger, wants(ANN_OTHER_GPU, "a")), str)


def test_labels_count_as_they_are_now() -> None:
    ledger = seen(companions(), pod("a", 4, at="n", card=0, labels={"app": "db"}))
    assert gpus(ledger, wants(ANN_OTHER_GPU, "app=db")) == (2,)


def test_a_nominated_pod_keeps_its_distance_beforehand() -> None:
    waiting = pod("w", 8, nominated="n", priority=10, labels={"app": "web"})
    ledger = cluster(node("n", 14, 14), pod("a", 4, at="n", card=0), waiting)
    # It will be on GPU 0, and leaves 2 units there.
    assert gpus(ledger, demand(2)) == (0,)
    assert gpus(ledger, wants(ANN_OTHER_GPU, "app=web", 2)) == (1,)


def test_results_are_not_kept_for_pods_with_another_choice() -> None:
    ledger = cluster(Node("n", MIXED), Node("m", (MIXED[0],)))
    asked = [wants(ANN_USE_MODELS, "A10"), demand(4), wants(ANN_USE_MODELS, "T4")]
    passed = [filter_nodes(ledger, PodRequest("p", each), ["n", "m"]).passed for each in asked]
    assert passed == [["n"], ["n", "m"], ["n", "m"]]
    assert score(ledger, PodRequest("p", asked[0]), "m") == 0


def test_preemption_spares_the_pod_whose_gpu_is_shared() -> None:
    ledger = cluster(
        node("n", 14, 14),
        pod("friend", 6, at="n", card=0),
        pod("stranger", 8, at="n", card=0),
        pod("other", 14, at="n", card=1),
    )
    who = PodRequest("seeker", wants(ANN_SAME_GPU, "friend", 8), priority=10)
    victims = victims_on(ledger.books["n"], who, ())
    assert victims is not None
    assert victims.uids == ("stranger",)


def test_preemption_evicts_on_allowed_gpus_only() -> None:
    ledger = cluster(Node("n", MIXED), pod("cheap", 1, at="n", card=0), pod("b", 14, at="n", card=1))
    who = PodRequest("seeker", wants(ANN_USE_MODELS, "A10", 14), priority=10)
    victims = victims_on(ledger.books["n"], who, ())
    assert victims is not None
    assert victims.uids == ("b",)


def test_a_member_of_a_group_follows_another_one() -> None:
    leader, follower = pod("leader", 4), pod("follower", wants(ANN_SAME_GPU, "leader", 8))
    places = result_of(plan_steps(cluster(node("m", 14), node("n", 14, 14)), [follower, leader], ["m", "n"]))
    assert places is not None
    assert places["leader"].node == places["follower"].node


def test_replicas_keep_apart_until_no_gpu_is_left() -> None:
    apart = wants(ANN_OTHER_GPU, "app=web")
    first = pod("w0", apart, at="n", card=0, labels={"app": "web"})
    second = pod("w1", apart, at="n", card=1, labels={"app": "web"})
    assert gpus(cluster(node("n", 14, 14), first), apart) == (1,)
    assert isinstance(gpus(cluster(node("n", 14, 14), first, second), apart), str)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (
            ANN_USE_MODELS,
            "H100",
            (
                "annotation gpushare.io/use-gpu-models=H100: no GPU of the cluster is one; "
                "there are NVIDIA A10, Tesla T4"
            ),
        ),
        (
            ANN_USE_UUIDS,
            "GPU-x",
            (
                "annotation gpushare.io/use-gpu-uuids=GPU-x: no GPU of the cluster has it; there are "
                "GPU-a, GPU-b"
            ),
        ),
        (ANN_USE_MODELS, "H100,T4", ""),
        (ANN_AVOID_MODELS, "H100", ""),
        (ANN_SAME_GPU, "a", ""),
    ],
)
def test_what_no_node_has_is_named_with_what_there_is(key: str, value: str, text: str) -> None:
    choice = wants(key, value).gpus
    assert choice is not None
    assert result_of(unknown_steps(cluster(Node("n", MIXED)).books.values(), choice)) == text


def test_of_many_gpus_some_are_listed() -> None:
    cards = tuple(Card(index, 14, uuid=f"GPU-{index}") for index in range(8))
    choice = wants(ANN_USE_UUIDS, "GPU-x").gpus
    assert choice is not None
    text = result_of(unknown_steps(cluster(Node("n", cards)).books.values(), choice))
    assert text.endswith("there are GPU-0, GPU-1, GPU-2, GPU-3, GPU-4 and 3 more")
