"""Views of valid and invalid objects."""

import json

import pytest

from gpushare.contract import ANN_ASSIGNED_NODE, ANN_CARDS, ANN_CLOSED, ANN_POD, RESOURCE_MEM
from gpushare.model.demand import Malformed
from gpushare.overview.gpu_pods import read_node, read_pod
from gpushare.overview.node_view import GpuCount, NodeView
from tests.support.builders.api_objects import Json, node, pod, share, views, whole


def one(a_node: Json, *pods: Json) -> NodeView:
    [view] = views([a_node], pods)
    return view


def placed(view: NodeView) -> dict[str, tuple[dict[int, int], int]]:
    return {pod.name: (dict(pod.cards), pod.pending) for pod in view.pods}


def cards_json(*units: int) -> dict[str, str]:
    return {ANN_CARDS: json.dumps([{"index": i, "units": n, "mib": n * 1024} for i, n in enumerate(units)])}


def test_totals_are_the_allocatable_units_divided_evenly_over_gpus() -> None:
    view = one(node("n", share("31", "2"), capacity=share("40", "2")))
    assert (view.total, [card.units for card in view.cards]) == (31, [15, 15])


def test_described_gpus_have_their_own_sizes() -> None:
    view = one(node("n", share(26, 2), annotations=cards_json(15, 11)))
    assert [card.units for card in view.cards] == [15, 11]
    assert view.described


def test_a_node_that_takes_no_pods_says_why() -> None:
    view = one(node("n", share(30, 2), annotations={ANN_CLOSED: "GPU 0 (NVIDIA GB10) is not shared"}))
    assert view.not_sharing == "GPU 0 (NVIDIA GB10) is not shared"
    assert view.problems == ("node n: takes no new pods: GPU 0 (NVIDIA GB10) is not shared",)


def assigned(units: int) -> str:
    """What the node agent says: so many units of the pod on GPU 1."""
    return json.dumps({"uid-p": {"main": {"1": units}}})


ON_BOTH = '{"0":{"0":1,"1":1},"1":{"0":1,"1":1}}'
PLACED: dict[str, tuple[Json, str | None, dict[int, int]]] = {
    "its index": ({"index": "1"}, None, {1: 4}),
    "an allocation on several GPUs": ({"index": "0", "cards": 2, "allocation": ON_BOTH}, None, {0: 2, 1: 2}),
    "the allocation of ACK's own scheduler": ({"allocation": '{"0":{"1":4}}'}, None, {1: 4}),
    "the node agent, against the pod": ({"index": "0"}, assigned(4), {1: 4}),
    "the pod, if the agent's word is unreadable": ({"index": "0"}, "{", {0: 4}),
}
JUNK = (
    *("", "{", "[]", "{}", '{"0":{}}', '{"0":{"x":1}}', '{"0":{"0":"4"}}', '{"0":{"0":4}}', "9" * 5000),
    f'{{"0":{{"0":{"9" * 400}}}}}',
)
PENDING: list[tuple[Json, str | None]] = [
    *(({"index": "1", "allocation": junk}, None) for junk in JUNK),
    *(({"index": index}, None) for index in (None, "", "-1", "x", "2", "99999", "1" * 40, "１")),
    ({"index": "0", "cards": 2, "allocation": '{"0":{"0":2,"7":2}}'}, None),  # the node has no GPU 7
    *(({"index": "0"}, assigned(units)) for units in (3, 5, 10**400)),
]


def bound(fields: Json, word: str | None) -> NodeView:
    """A node with two GPUs and a pod with 4 units; ``word`` is that of the node agent."""
    said = {ANN_ASSIGNED_NODE: word} if word is not None else {}
    return one(node("n", share(30, 2), annotations=said), pod("p", "n", 4, **fields))


@pytest.mark.parametrize(("fields", "word", "cards"), PLACED.values(), ids=PLACED)
def test_a_pod_is_on_the_gpus_that_are_named_by(fields: Json, word: str, cards: dict[int, int]) -> None:
    assert placed(bound(fields, word)) == {"p": (cards, 0)}


@pytest.mark.parametrize(("fields", "word"), PENDING)
def test_a_pod_is_pending_if_what_names_its_gpus_is_unreadable_or_wrong(fields: Json, word: str) -> None:
    view = bound(fields, word)
    assert placed(view) == {"p": ({}, 4)}
    assert (view.on_cards, view.pending, view.used) == (0, 4, 4)


def test_an_index_without_an_amount_is_of_no_bind_and_pending() -> None:
    unbound = pod("p", "n", 4, index="1")
    del unbound["metadata"]["annotations"][ANN_POD]
    assert placed(one(node("n", share(30, 2)), unbound)) == {"p": ({}, 4)}


def test_finished_pods_have_no_units() -> None:
    pods = [pod("done", "n", 4, index="0", phase="Succeeded"), pod("dead", "n", 4, index="0", phase="Failed")]
    assert one(node("n", share(15)), *pods).used == 0


def test_pods_are_in_order_of_namespace_and_name_and_nodes_in_order_of_name() -> None:
    pods = [pod("b", "n2", 1), pod("a", "n2", 1, namespace="z"), pod("a", "n2", 1)]
    first, second = views([node("n2", share(15)), node("n1", share(15))], pods)
    assert (first.name, second.name) == ("n1", "n2")
    assert [(p.namespace, p.name) for p in second.pods] == [("default", "a"), ("default", "b"), ("z", "a")]


def test_only_an_internal_address_counts() -> None:
    assert one(node("n", share(15), address=None)).address == "unknown"
    bare = read_node(b'{"metadata":{"name":"n"}}')
    assert not isinstance(bare, Malformed)


def test_an_address_cannot_move_the_cursor() -> None:
    assert one(node("n", share(15), address="10\t.0\x1b[2J")).address == "10?.0?[2J"


@pytest.mark.parametrize(
    ("labels", "roles"),
    [
        ({}, ()),
        ({"node-role.kubernetes.io/master": ""}, ("master",)),
        ({"node-role.kubernetes.io/control-plane": ""}, ("master",)),
        ({"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/master": ""}, ("master",)),
        ({"kubernetes.io/role": "edge", "node-role.kubernetes.io/gpu": "true"}, ("edge", "gpu")),
        ({"node-role.kubernetes.io/": "", "kubernetes.io/role": ""}, ()),
    ],
)
def test_roles(labels: dict[str, str], roles: tuple[str, ...]) -> None:
    assert one(node("n", share(15), labels=labels)).roles == roles


def test_whole_gpus_of_a_sharing_node_are_those_in_any_use() -> None:
    view = one(
        node("n", share(45, 3)), pod("p", "n", 4, index="0"), pod("q", "n", 4, index="0"), pod("r", "n", 1)
    )
    assert view.gpus == GpuCount(total=3, allocated=1, unhealthy=0)


def test_whole_gpus_of_another_node_are_those_allocated_as_whole() -> None:
    view = one(node("n", whole(3), capacity=whole(4)), pod("p", "n", gpus=2))
    assert view.gpus == GpuCount(total=4, allocated=2, unhealthy=1)


def test_published_health_is_counted() -> None:
    cards = json.dumps([{"index": 0, "units": 15, "healthy": False}, {"index": 1, "units": 15}])
    assert one(node("n", share(30, 2), annotations={ANN_CARDS: cards})).gpus.unhealthy == 1


@pytest.mark.parametrize(
    ("amounts", "annotations", "problem"),
    [
        (share("much"), {}, "aliyun.com/gpu-mem: quantity 'much'"),
        (share({"a": 1}), {}, "aliyun.com/gpu-mem: quantity"),
        (share(15, 0), {}, "aliyun.com/gpu-mem=15 on 0 GPUs"),
        (share(15, "-1"), {}, "on -1 GPUs"),
        (share(15, "1G"), {}, "on 1000000000 GPUs"),
        (share(15, "x"), {}, "aliyun.com/gpu-count: quantity 'x'"),
        (share(15), {ANN_CARDS: "[{}]"}, "annotation gpushare.io/cards: "),
        (share(15), {ANN_CARDS: "[]"}, "on 0 GPUs"),
        (share(15), cards_json(*[1] * 500), "on 500 GPUs"),
        (share(15), {ANN_ASSIGNED_NODE: "?"}, "annotation gpushare.io/assigned cannot be read"),
    ],
)
def test_unreadable_values_are_reported_with_the_name_of_the_node(
    amounts: Json, annotations: dict[str, str], problem: str
) -> None:
    view = one(node("n", amounts, annotations=annotations))
    assert problem in "; ".join(view.problems)
    assert all(text.startswith("node n: ") for text in view.problems)


def test_units_of_a_node_without_gpus_are_pending() -> None:
    view = one(node("n", share(15, 0)), pod("p", "n", 4, index="0"))
    assert (view.cards, view.pending) == ((), 4)


def test_a_node_without_its_agent_is_reported() -> None:
    view = one(node("n", share(0)), pod("p", "n", 4, index="0"))
    assert not view.shared
    assert "is the node agent running?" in view.problems[0]


def test_a_healthy_node_is_not_reported() -> None:
    assert one(node("n", share(15)), pod("p", "n", 4, index="0")).problems == ()


def raw(item: Json) -> bytes:
    return json.dumps(item).encode()


def test_a_pod_without_gpu_or_node_is_ignored() -> None:
    assert read_pod(raw(pod("p", "n"))) is None
    assert read_pod(raw(pod("p", None, 4))) is None
    assert read_pod(b"{}") is None


def test_an_invalid_request_counts_with_its_units() -> None:
    item = pod("p", "n", 4)
    item["metadata"]["labels"] = {"aliyun.com/gpu-count": "3"}
    record = read_pod(raw(item))
    assert record is not None
    assert not isinstance(record, Malformed)
    assert record.units == 4


@pytest.mark.parametrize("amount", ["4 GiB", {"a": 1}, [4], 1.5])
def test_limits_that_cannot_be_read_are_a_problem_and_no_number(amount: object) -> None:
    found = read_pod(raw(pod("p", "n", amount)))
    assert isinstance(found, Malformed)
    assert "default/p" in found.problem


@pytest.mark.parametrize(
    "body", [b"[]", b'{"metadata":7}', b'{"metadata":{"name":"n"},"status":[]}', b"\xff"]
)
def test_an_invalid_object_is_a_problem_and_no_crash(body: bytes) -> None:
    assert isinstance(read_node(body), Malformed)


def test_a_huge_amount_stays_a_number() -> None:
    view = one(node("n", {RESOURCE_MEM: "9E", "aliyun.com/gpu-count": 1}))
    assert view.total == 9 * 10**18


def in_use(*pods: str) -> dict[str, str]:
    return {ANN_CARDS: json.dumps([{"index": 0, "units": 15, "healthy": False, "whole_gpu_pods": pods}])}


def test_a_gpu_in_use_as_a_whole_gpu_is_full_in_every_view() -> None:
    known = one(node("n", share(15), annotations=in_use("default/app")), pod("app", "n", gpus=1))
    assert (known.used, known.used_on(0), known.pods[0].on_card(0)) == (15, 15, 15)
    hidden = one(node("n", share(15), annotations=in_use("pod UID 7")))
    assert (hidden.used, hidden.gpus) == (15, GpuCount(1, 1, 0)), "in use, and nothing is wrong with it"


def test_a_gpu_that_several_pods_have_as_a_whole_gpu_is_full_once() -> None:
    a_node = node("n", share(15), annotations=in_use("default/a", "default/b"))
    assert one(a_node, pod("a", "n", gpus=1), pod("b", "n", gpus=1)).used_on(0) == 15


def test_a_pod_of_the_same_name_that_requests_units_does_not_have_the_gpu() -> None:
    """The StatefulSet of the ACK documentation, created again with gpu-mem, before the agent has noticed."""
    view = one(node("n", share(15), annotations=in_use("default/app")), pod("app", "n", 4))
    assert (view.pods[0].on_card(0), view.pending) == (0, 4)
