"""Rolling updates that wait for themselves."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from gpushare.model.objects import Node, Pod
from gpushare.scheduling.advice.rollout import SelfWait, self_wait_steps
from gpushare.scheduling.steps import result_of
from tests.support.builders.scheduling import cluster, node, pod, pod_request

APP = replace(pod("app-3g-v1-1", 4), owner="StatefulSet/app-3g-v1")
NEW = replace(pod("web-6d5f7-abcde", 10), owner="ReplicaSet/web-6d5f7")


def waits(waiting: Pod, things: Iterable[Node | Pod], units: int) -> SelfWait | None:
    books = cluster(*things).books.values()
    return result_of(self_wait_steps(books, waiting, pod_request(units)))


def named(name: str, units: int, *, at: str = "n", card: int = 0) -> Pod:
    return replace(pod(name, units, at=at, card=card), name=name)


def test_a_statefulset_whose_first_pod_has_the_whole_gpu_waits_for_itself() -> None:
    found = waits(APP, [node("n", 15, whole={0: ("default/app-3g-v1-0",)})], 4)
    assert found == SelfWait("n", ("default/app-3g-v1-0",), "StatefulSet app-3g-v1")
    assert found.text == (
        "the rolling update of StatefulSet app-3g-v1 waits for itself: default/app-3g-v1-0 on node n has the "
        "GPU, and would be replaced only after this pod runs; delete it: "
        "kubectl delete pod -n default app-3g-v1-0"
    )


def test_a_deployment_whose_old_pod_has_the_units_waits_for_itself() -> None:
    found = waits(NEW, [node("n", 14), named("web-7c9b4-x2x2x", 10)], 10)
    assert found == SelfWait("n", ("default/web-7c9b4-x2x2x",), "Deployment web")
    whole = waits(NEW, [node("n", 14, whole={0: ("default/web-7c9b4-x2x2x",)})], 10)
    assert whole == found


@pytest.mark.parametrize(
    ("waiting", "other"),
    [
        (NEW, "web-6d5f7-fghij"),  # another replica of the new revision
        (NEW, "web-server-7c9b4-x2x2x"),  # another Deployment
        (NEW, "web-7c9b4"),
        (replace(NEW, owner=""), "web-7c9b4-x2x2x"),
        (replace(NEW, owner="Job/web-6d5f7"), "web-7c9b4-x2x2x"),
        (replace(NEW, namespace="team"), "web-7c9b4-x2x2x"),
        (APP, "app-3g-v1-0"),  # with units it may be of the same revision
        (APP, "app-3g-v1-x"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.owner,
)
def test_pods_of_others_and_of_the_same_revision_are_not_blamed(waiting: Pod, other: str) -> None:
    assert waits(waiting, [node("n", 14), named(other, 10)], 10) is None


def test_an_old_pod_is_not_blamed_if_the_new_one_would_not_fit_without_it() -> None:
    things: list[Node | Pod] = [node("n", 14), named("web-7c9b4-x2x2x", 2), named("db-0", 8)]
    assert waits(NEW, things, 10) is None


def test_the_node_with_the_old_pod_is_found_among_many() -> None:
    others = [node(f"a{number}", 4) for number in range(250)]
    things: list[Node | Pod] = [*others, node("n", 14), named("web-7c9b4-x2x2x", 10)]
    found = waits(NEW, things, 10)
    assert found
    assert found.node == "n"
