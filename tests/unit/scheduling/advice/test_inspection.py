"""The books as data for users."""

from dataclasses import replace

import pytest

from gpushare.model.modes import Mode
from gpushare.scheduling.advice.inspection import explain_steps, inspect
from gpushare.scheduling.events import NodeDeleted
from gpushare.scheduling.fitting import PodRequest
from gpushare.scheduling.ledger import EMPTY_LEDGER, Ledger, apply
from tests.support.builders.scheduling import T4, cluster, demand, node, pod, pod_request, reserved
from tests.support.steps import counted, finished


def test_the_layout_is_that_of_the_aliyun_extender() -> None:
    ledger = cluster(node("n", 15, 15), pod("uid", 4, at="n", card=1, name="app-0"))
    assert inspect(ledger) == {
        "nodes": [
            {
                "name": "n",
                "totalGPU": 30,
                "usedGPU": 4,
                "devs": [
                    {"id": 0, "totalGPU": 15, "usedGPU": 0, "pods": []},
                    {
                        "id": 1,
                        "totalGPU": 15,
                        "usedGPU": 4,
                        "pods": [{"name": "app-0", "namespace": "default", "usedGPU": 4}],
                    },
                ],
            }
        ]
    }


def test_why_a_node_is_closed_is_reported() -> None:
    (found,) = inspect(cluster(node("n", T4, closed="why")))["nodes"]
    assert found["closed"] == "why"


def test_nodes_and_pods_are_sorted_by_name() -> None:
    ledger = cluster(
        node("b", T4),
        node("a", T4),
        *[pod(f"uid-{i}", 1, at="a", card=0, name=name) for i, name in enumerate(("z", "x", "y"))],
    )
    nodes = inspect(ledger)["nodes"]
    assert [found["name"] for found in nodes] == ["a", "b"]
    assert [found["name"] for found in nodes[0]["devs"][0]["pods"]] == ["x", "y", "z"]


def test_gpus_of_different_size_are_reported_as_they_are() -> None:
    (found,) = inspect(cluster(node("n", 22, 11)))["nodes"]
    assert (found["totalGPU"], [dev["totalGPU"] for dev in found["devs"]]) == (33, [22, 11])


def test_a_pod_on_several_gpus_is_listed_on_each_with_its_units() -> None:
    ledger = cluster(node("n", T4, T4, T4), pod("a", demand(8, cards=2), at="n", card=(0, 2)))
    (found,) = inspect(ledger)["nodes"]
    assert [dev["usedGPU"] for dev in found["devs"]] == [4, 0, 4]
    assert [[p["usedGPU"] for p in dev["pods"]] for dev in found["devs"]] == [[4], [], [4]]
    assert found["usedGPU"] == 8


def test_a_pod_of_unknown_gpu_is_listed_apart_and_used_on_every_gpu() -> None:
    (found,) = inspect(cluster(node("n", T4, T4), pod("a", 4, at="n")))["nodes"]
    assert [(dev["usedGPU"], dev["pods"]) for dev in found["devs"]] == [(4, []), (4, [])]
    assert found["usedGPU"] == 4
    assert found["unplaced"] == [{"name": "a", "namespace": "default", "usedGPU": 4}]


def test_a_pod_that_is_being_deleted_or_bound_is_still_listed() -> None:
    ledger = cluster(node("n", T4), pod("a", 4, at="n", card=0, terminating=True))
    ledger = reserved(ledger, pod("b", 4), "n")
    (found,) = inspect(ledger)["nodes"]
    assert [p["name"] for p in found["devs"][0]["pods"]] == ["a", "b"]


def test_only_nodes_with_gpus_are_listed() -> None:
    ledger = cluster(node("none"), node("n", T4), node("gone", T4), pod("a", 4, at="gone", card=0))
    ledger = apply(ledger, NodeDeleted("gone"))
    assert [found["name"] for found in inspect(ledger)["nodes"]] == ["n"]


def test_no_node_is_an_empty_list() -> None:
    assert inspect(EMPTY_LEDGER) == {"nodes": []}


def test_one_node_can_be_asked_for() -> None:
    ledger = cluster(node("a", T4), node("b", T4), node("none"))
    assert inspect(ledger, "b") == {"nodes": [inspect(ledger)["nodes"][1]]}
    assert inspect(ledger, "none")["nodes"][0]["devs"] == []


@pytest.mark.parametrize("name", ["unknown", "gone", ""])
def test_a_node_that_is_not_there_is_reported(name: str) -> None:
    ledger = apply(cluster(node("gone", T4), pod("a", 4, at="gone", card=0)), NodeDeleted("gone"))
    assert inspect(ledger, name) == {"nodes": [], "error": f'node "{name}" not found'}


# --- why a pod waits ------------------------------------------------------------------------------


def explained(ledger: Ledger, request: PodRequest) -> str | None:
    return finished(explain_steps(ledger, request))


def full(name: str, left: int) -> tuple[object, object]:
    return node(name, T4), pod(f"on-{name}", T4 - left, at=name, card=0)


def test_a_pod_that_fits_somewhere_needs_no_explanation() -> None:
    assert explained(cluster(node("a", 2), node("b", T4)), pod_request(4)) is None


def test_the_nodes_with_the_most_free_units_are_reported_first_and_no_more_than_three() -> None:
    things = [
        thing for name, left in zip("abcde", (1, 3, 0, 2, 0), strict=True) for thing in full(name, left)
    ]
    assert explained(cluster(*things), pod_request(4)) == (  # type: ignore[arg-type]
        "b: Insufficient GPU Memory in one device: asked 4, at most 3 of 14 free on GPU 0; "
        "d: Insufficient GPU Memory in one device: asked 4, at most 2 of 14 free on GPU 0; "
        "a: Insufficient GPU Memory in one device: asked 4, at most 1 of 14 free on GPU 0; "
        "and 2 more nodes"
    )


@pytest.mark.parametrize("away", ["cordoned", "not ready"])
def test_a_node_that_takes_no_pods_silences_no_explanation(away: str) -> None:
    things = full("b", 3)
    ledger = cluster(replace(node("a", T4), away=away), *things)  # type: ignore[arg-type]
    assert explained(ledger, pod_request(4)) == (
        f"a: it fits, but the node is {away}; "
        "b: Insufficient GPU Memory in one device: asked 4, at most 3 of 14 free on GPU 0"
    )


def test_an_amount_in_bytes_is_told_how_to_write_it() -> None:
    """As ``aliyun.com/gpu-mem: 2Gi``, which Kubernetes accepts."""
    assert explained(cluster(node("n", T4)), pod_request(2 << 30)) == (
        "aliyun.com/gpu-mem counts GiB by default: write 2, not 2Gi"
    )


def test_nodes_that_fit_are_left_out_if_the_scheduler_has_found_none() -> None:
    """A node selector of the pod may exclude them."""
    ledger = cluster(node("a", T4), *full("b", 3))  # type: ignore[arg-type]
    text = "b: Insufficient GPU Memory in one device: asked 4, at most 3 of 14 free on GPU 0"
    assert finished(explain_steps(ledger, pod_request(4), rejected=True)) == text
    assert finished(explain_steps(cluster(node("a", T4)), pod_request(4), rejected=True)) is None


def test_unresolvable_nodes_come_last_however_empty_they_are() -> None:
    ledger = cluster(
        *(node(name, 99, closed="label gpushare=false") for name in ("a", "b", "c")),
        node("d", T4),
        pod("on-d", 12, at="d", card=0),
    )
    text = explained(ledger, pod_request(4))
    assert text is not None
    assert text.startswith("d: Insufficient GPU Memory in one device: asked 4, at most 2 of 14 free")
    assert text.endswith("; and 1 more nodes")


def test_free_units_on_a_node_that_is_not_among_the_emptiest_are_found() -> None:
    """Three empty nodes do not divide compute; the fourth, nearly full, does."""
    wanted = demand(2, core=10)
    ledger = cluster(
        *(node(name, T4) for name in ("a", "b", "c")),
        node("d", T4, mode=Mode.MPS),
        pod("on-d", 12, at="d", card=0),
    )
    assert explained(ledger, pod_request(wanted)) is None


def test_a_pod_on_several_gpus_is_explained_by_one_gpu() -> None:
    ledger = cluster(node("n", T4, T4), pod("a", 12, at="n", card=0))
    assert explained(ledger, pod_request(demand(8, cards=2))) == (
        "n: Insufficient GPU Memory in one device: asked 4 on each of 2 GPUs, at most 14 of 14 free on GPU 1"
    )


def test_a_cluster_without_shared_gpus_is_reported() -> None:
    ledger = cluster(node("none"), pod("a", 4, at="gone", card=0))
    assert explained(ledger, pod_request(4)) == "asked 4 of aliyun.com/gpu-mem, and no node shares its GPUs"


def test_a_placed_pod_needs_no_explanation() -> None:
    ledger = reserved(cluster(node("n", T4)), pod("a", T4), "n")
    assert explained(ledger, pod_request(T4, uid="a")) is None


def test_a_gpu_in_use_as_a_whole_gpu_is_used_up_by_the_pod_that_has_it() -> None:
    ledger = cluster(node("n", 15, 15, whole={0: ("default/app-3g-v1-0",)}), pod("a", 4, at="n", card=1))
    (found,) = inspect(ledger)["nodes"]
    assert found["usedGPU"] == 19
    assert found["devs"][0] == {
        "id": 0,
        "totalGPU": 15,
        "usedGPU": 15,
        "pods": [{"name": "app-3g-v1-0", "namespace": "default", "usedGPU": 15}],
    }


def test_the_reason_for_a_gpu_in_use_as_a_whole_names_the_pod() -> None:
    ledger = cluster(node("n", 15, whole={0: ("default/app-3g-v1-0",)}))
    assert "GPU 0 until default/app-3g-v1-0 is gone" in (explained(ledger, pod_request(4)) or "")


def test_an_explanation_takes_a_limited_number_of_nodes_in_a_step() -> None:
    ledger = cluster(*(node(f"n{number:04}", 2, 2) for number in range(1000)))
    for request in (pod_request(4), pod_request(demand(6, cards=2)), pod_request(demand(1, core=10))):
        steps, text = counted(explain_steps(ledger, request))
        assert steps == 20
        assert text is not None
        assert text.endswith("; and 997 more nodes")
