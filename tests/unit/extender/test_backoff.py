"""Pods of a workload that kubelets reject again and again: the next ones wait."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.extender.backoff import MOST, PERIOD_S, RejectionBackoff
from gpushare.extender.cluster import ClusterState
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.objects import Node, Pod
from tests.support.builders.scheduling import pod

WEB = replace(pod("next"), workload="web")


def rejected(uid: str, node: str = "n", workload: str = "web", at: str = "") -> Pod:
    """A pod that the kubelet of the node did not admit."""
    failed = replace(pod(uid, at=node), workload=workload, finished=True)
    return replace(failed, rejected=f"pod {uid}: no library", rejected_at=at)


def waits(backoff: RejectionBackoff, node: str, now: float, waiting: Pod = WEB) -> bool:
    wait = backoff.wait_of(waiting, now)
    return wait is not None and wait.excludes(node)


def test_from_the_second_rejection_on_the_wait_triples_for_that_node_and_workload_only() -> None:
    backoff = RejectionBackoff()
    assert backoff.wait_of(WEB, 0) is None
    backoff.add(rejected("a"), 0)
    assert not waits(backoff, "n", 0)
    backoff.add(rejected("b"), 1)
    assert waits(backoff, "n", 15)
    assert not waits(backoff, "n", 17)
    assert not waits(backoff, "other", 2)
    assert not waits(backoff, "n", 2, replace(WEB, workload="db"))
    backoff.add(rejected("c"), 20)
    assert waits(backoff, "n", 64)
    assert not waits(backoff, "n", 66)


def test_the_wait_tells_its_end_and_the_last_rejection() -> None:
    backoff = RejectionBackoff()
    for at, (uid, node) in enumerate((("a", "m"), ("b", "n"), ("c", "n"), ("d", "m"))):
        backoff.add(rejected(uid, node), at)
    wait = backoff.wait_of(WEB, 5)
    assert wait
    assert (wait.nodes, wait.until_s, wait.text) == (frozenset({"n", "m"}), 17, "node m: pod d: no library")


def test_after_many_rejections_no_node_gets_the_workload_until_they_are_old() -> None:
    backoff = RejectionBackoff()
    for number in range(MOST):
        backoff.add(rejected(str(number), f"n{number}"), number)
    wait = backoff.wait_of(WEB, MOST)
    assert wait
    assert (wait.nodes, wait.until_s) == (None, PERIOD_S)
    assert waits(backoff, "never used", PERIOD_S - 1)
    assert not waits(backoff, "never used", PERIOD_S)


def test_what_a_node_has_rejected_is_forgotten_when_it_takes_pods_again() -> None:
    backoff = RejectionBackoff()
    for number in range(MOST):
        backoff.add(rejected(str(number), "n"), number)
        backoff.add(rejected(f"db{number}", "n", "db"), number)
    for number in range(2):
        backoff.add(rejected(f"m{number}", "m"), MOST)
    backoff.forget("n")
    assert backoff.wait_of(replace(WEB, workload="db"), MOST) is None
    wait = backoff.wait_of(WEB, MOST)
    assert wait
    assert wait.nodes == frozenset({"m"})


def test_a_node_that_opens_is_tried_again_at_once() -> None:
    """As after restarts of its agent, in which calls of the kubelet fail."""
    cluster = ClusterState()
    node = Node("n", opened="10:00")
    cluster.change_nodes([Upserted("n", node)])
    cluster.change_pods([Upserted(uid, rejected(uid, at="2999-01-01T00:00:00Z")) for uid in "ab"])
    cluster.change_nodes([Upserted("n", node)])
    assert cluster.wait_of(WEB)
    cluster.change_nodes([Upserted("n", replace(node, opened="10:05"))])
    assert cluster.wait_of(WEB) is None


@given(st.integers(1, 12), st.integers(5, 30))
def test_a_workload_that_every_node_rejects_loses_few_pods_in_any_ten_minutes(
    nodes: int, step_s: int
) -> None:
    """Its next pod is placed as soon as it may be, as the only one on its way."""
    backoff, times = RejectionBackoff(), list[float]()
    for now in range(0, 3600, step_s):
        node = next((f"n{i}" for i in range(nodes) if not waits(backoff, f"n{i}", now)), None)
        if node:
            backoff.add(rejected(str(now), node), now)
            times.append(now)
    assert times
    assert all(sum(start <= at < start + PERIOD_S for at in times) <= MOST for start in times)


def test_a_rejection_counts_once_and_outlives_its_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller of a StatefulSet deletes a failed pod at once."""
    now = [1000.0]
    monkeypatch.setattr("gpushare.extender.cluster.time.monotonic", lambda: now[0])
    cluster = ClusterState()
    for uid in "ab":
        assert cluster.wait_of(WEB) is None
        cluster.change_pods([Upserted(uid, replace(pod(uid, at="n"), workload="web"))])
        for _ in range(3):
            cluster.change_pods([Upserted(uid, rejected(uid))])
        cluster.change_pods([Deleted(uid)])
    now[0] += 14
    assert cluster.wait_of(WEB)
    now[0] += 2
    assert cluster.wait_of(WEB) is None


@pytest.mark.parametrize(("at", "counts"), [("2020-01-01T00:00:00Z", False), ("2999-01-01T00:00:00Z", True)])
def test_of_the_failed_pods_in_a_list_only_recent_ones_count(at: str, counts: bool) -> None:  # noqa: FBT001 - a table
    cluster = ClusterState()
    cluster.change_pods([Upserted(uid, rejected(uid, at=at)) for uid in "ab"])
    assert (cluster.wait_of(WEB) is not None) is counts


def test_a_pod_that_nothing_replaces_is_not_remembered() -> None:
    cluster = ClusterState()
    cluster.change_pods(
        [Upserted(uid, rejected(uid, workload="", at="2999-01-01T00:00:00Z")) for uid in "ab"]
    )
    assert cluster.wait_of(replace(WEB, workload="")) is None
