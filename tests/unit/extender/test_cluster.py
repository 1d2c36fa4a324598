"""The live state: unhealthy GPUs, known pods, disruption budgets, and waking tasks that wait for a pod."""

import asyncio

import pytest

from gpushare.extender.cluster import ClusterState
from gpushare.model.changes import Deleted, Upserted
from tests.support.builders.scheduling import budget, node, pod, reserved


def with_node() -> ClusterState:
    made = ClusterState()
    made.change_nodes([Upserted("n", node("n", 14, 14, 14))])
    return made


def usable(cluster: ClusterState) -> list[int]:
    return [usage.card.index for usage in cluster.ledger.books["n"].usages if usage.schedulable]


@pytest.mark.parametrize(
    ("text", "left", "junk"),
    [
        ("", [0, 1, 2], ()),
        ("1", [0, 2], ()),
        (" 0 ,, 2,", [1], ()),
        ("7", [0, 1, 2], ()),
        ("all", [0, 1, 2], ("all",)),
        ("1, x, -1, 1.5, 0x1", [0, 2], ("x", "-1", "1.5", "0x1")),
        ("١", [0, 1, 2], ("١",)),
        ("9" * 5000, [0, 1, 2], ("9" * 5000,)),
    ],
)
def test_entries_that_name_no_gpu_disable_nothing_and_are_named(
    text: str, left: list[int], junk: tuple[str, ...]
) -> None:
    cluster = with_node()
    assert cluster.change_unhealthy([Upserted("n", text)]) == ({"n": junk} if junk else {})
    assert usable(cluster) == left


def test_a_deleted_list_makes_its_gpus_healthy_again() -> None:
    cluster = with_node()
    cluster.change_unhealthy([Upserted("n", "0,1")])
    assert cluster.change_unhealthy([Deleted("n")]) == {}
    assert usable(cluster) == [0, 1, 2]


def test_a_list_for_a_node_that_comes_later_counts_then() -> None:
    cluster = ClusterState()
    cluster.change_unhealthy([Upserted("n", "2")])
    cluster.change_nodes([Upserted("n", node("n", 14, 14, 14))])
    assert usable(cluster) == [0, 1]


def test_a_pod_is_known_if_it_was_read_or_is_being_bound() -> None:
    """A list must report the deletion of both, also if no watch has shown them."""
    cluster = with_node()
    cluster.see_pod(pod("read"))
    cluster.ledger = reserved(cluster.ledger, pod("bound"), "n")
    assert cluster.known_pods() == {"read", "bound"}


def test_the_budgets_of_a_pod_follow_the_watches() -> None:
    cluster = ClusterState()
    assert cluster.budgets_of("a") == ()
    cluster.change_pods([Upserted("a", pod("a", labels={"app": "db"}))])
    cluster.change_budgets(
        [Upserted("default/b", budget(app="db")), Upserted("default/c", budget(app="web"))]
    )
    assert cluster.budgets_of("a") == (budget(app="db"),)
    cluster.change_budgets([Upserted("default/b", budget(allowed=2, app="db"))])
    assert cluster.budgets_of("a") == (budget(allowed=2, app="db"),)
    cluster.change_budgets([Deleted("default/b")])
    assert cluster.budgets_of("a") == ()


async def test_every_task_that_waits_for_a_pod_is_woken_by_any_change_of_it() -> None:
    cluster = ClusterState()
    waits = [asyncio.create_task(cluster.next_change(uid)) for uid in ("a", "a", "b")]
    await asyncio.sleep(0)
    cluster.change_pods([Upserted("a", pod("a"))])
    async with asyncio.timeout(1):
        await asyncio.gather(*waits[:2])
    assert not waits[2].done()
    cluster.change_pods([Deleted("b")])
    async with asyncio.timeout(1):
        await waits[2]


async def test_a_cancelled_waiter_does_not_affect_the_next_change() -> None:
    cluster = ClusterState()
    wait = asyncio.create_task(cluster.next_change("a"))
    await asyncio.sleep(0)
    wait.cancel()
    await asyncio.gather(wait, return_exceptions=True)
    assert [p.uid for p in cluster.change_pods([Upserted("a", pod("a"))])] == ["a"]
