"""Nodes and pods of a cluster as replay sees them."""

from dataclasses import replace

import pytest

from gpushare.contract import ANN_AVOID_MODELS, ANN_AVOID_UUIDS, ANN_OTHER_GPU, ANN_USE_MODELS
from gpushare.model.gpu_choice import gpu_choice
from gpushare.model.objects import Node
from gpushare.model.resources import Resources
from gpushare.scheduling.placement.replay.needs import Need, Room
from gpushare.scheduling.placement.replay.rooms import Models, empty_room_of, need_of, room_of
from tests.support.builders.scheduling import cluster, demand, node, pod

FREE = Resources(1000, 64)


def room(what: Node, *pods: str) -> Room:
    ledger = cluster(what, *(pod(uid, 4, at=what.name, card=0) for uid in pods))
    return room_of(ledger.books[what.name], FREE, 3)


def test_a_node_has_what_is_free_on_each_gpu() -> None:
    assert room(node("n", 14, 10), "p", "q") == Room(1000, 64, 3, 14, (6, 10))


def test_a_gpu_that_takes_no_pods_has_nothing_free() -> None:
    broken = node("n", 14, 14)
    first, second = broken.cards
    assert room(replace(broken, cards=(replace(first, healthy=False), second))).free == (0, 14)
    assert room(replace(broken, closed="label")).free == (0, 0)


def test_a_node_without_gpus_has_room_for_other_pods() -> None:
    assert room(node("n")) == Room(1000, 64, 3, -1, ())


def test_an_empty_node_has_what_it_offers() -> None:
    ledger = cluster(node("n", 14, 14), pod("p", 4, at="n", card=0))
    assert empty_room_of(ledger.books["n"], Resources(9000, 512), 0) == Room(9000, 512, 0, 14, (14, 14))


def test_a_pod_needs_units_on_each_gpu() -> None:
    assert need_of(demand(8, cards=2), FREE) == Need(1000, 64, 2, 4)


def test_a_pod_without_units_needs_no_gpu() -> None:
    assert need_of(demand(0), FREE) == Need(1000, 64, 0, 0)


def test_models_have_numbers_and_the_last_one_is_for_all_others() -> None:
    models = Models()
    books = [cluster(with_model(f"m{number}")).books["n"] for number in (*range(70), 0)]
    assert [models.number(book) for book in books] == [*range(63), *[63] * 7, 0]


@pytest.mark.parametrize(
    ("annotations", "bits"),
    [
        ({}, 0),
        ({ANN_USE_MODELS: "A100"}, 0b001),
        ({ANN_AVOID_MODELS: "A100"}, 0b110),
        ({ANN_USE_MODELS: "A100, T4", ANN_AVOID_UUIDS: "GPU-1"}, 0b101),
        ({ANN_USE_MODELS: "H100"}, 0),
        ({ANN_OTHER_GPU: "other"}, 0),
    ],
)
def test_a_pod_allows_some_models(annotations: dict[str, str], bits: int) -> None:
    models = Models()
    for model in ("NVIDIA A100-SXM4-80GB", "Tesla V100", "Tesla T4"):
        models.number(cluster(with_model(model)).books["n"])
    choice = gpu_choice(tuple(annotations.items()), "default") if annotations else None
    assert models.allowed(choice) == bits


def with_model(model: str) -> Node:
    plain = node("n", 14)
    return replace(plain, cards=tuple(replace(card, model=model) for card in plain.cards))
