"""The free CPU and memory of nodes in the ledger."""

from dataclasses import replace

from gpushare.model.objects import Node
from gpushare.model.resources import Load, Resources
from gpushare.scheduling.events import LoadObserved, NodeObserved, PodDeleted, PodObserved, Released
from gpushare.scheduling.ledger import Ledger, apply
from tests.support.builders.scheduling import cluster, node, pod, pod_request, reserved, score, seen

OFFERED = Resources(8000, 4096)
SMALL = Resources(500, 100)


def offering(name: str = "n", offered: Resources | None = OFFERED) -> Node:
    return replace(node(name, 14), allocatable=offered)


def loaded(ledger: Ledger, uid: str, at: str | None, requested: Resources = SMALL) -> Ledger:
    return apply(ledger, LoadObserved(uid, Load(at, requested)))


def test_pods_with_and_without_gpus_take_from_a_node() -> None:
    ledger = loaded(cluster(offering()), "plain", "n", Resources(1000, 96))
    ledger = seen(loaded(ledger, "ours", "n"), pod("ours", at="n", card=0))
    assert ledger.free("n") == Resources(6500, 3900)
    assert apply(ledger, PodDeleted("plain")).free("n") == Resources(7500, 3996)
    assert apply(ledger, PodDeleted("plain"), PodDeleted("ours")).free("n") == OFFERED


def test_a_pod_that_waits_takes_nothing() -> None:
    ledger = loaded(cluster(offering()), "p", None)
    assert ledger.free("n") == OFFERED
    assert loaded(ledger, "p", "n").free("n") == Resources(7500, 3996)


def test_a_pod_that_has_finished_takes_nothing() -> None:
    ledger = seen(loaded(cluster(offering()), "p", "n"), pod("p", at="n", card=0))
    assert seen(ledger, pod("p", at="n", card=0, finished=True)).free("n") == OFFERED


def test_the_free_amounts_of_an_unknown_node_are_unknown() -> None:
    assert cluster().free("n") is None
    assert cluster(offering(offered=None)).free("n") is None


def test_a_pod_that_was_read_elsewhere_counts_once_the_watch_has_shown_its_requests() -> None:
    ledger = seen(cluster(offering()), pod("p", at="n", card=0))
    assert ledger.free("n") == OFFERED
    assert loaded(ledger, "p", "n").free("n") == Resources(7500, 3996)


def test_a_bind_takes_from_its_node_at_once() -> None:
    who = pod("p")
    waiting = seen(loaded(cluster(offering()), "p", None), who)
    bound = reserved(waiting, who, "n")
    assert bound.free("n") == Resources(7500, 3996)
    # The watch is behind: it shows the pod without its node.
    assert seen(loaded(bound, "p", None), who).free("n") == Resources(7500, 3996)
    assert apply(bound, Released("p")).free("n") == OFFERED


def test_pods_of_a_node_that_comes_later_count() -> None:
    ledger = loaded(cluster(), "p", "n")
    assert apply(ledger, NodeObserved(offering())).free("n") == Resources(7500, 3996)


def test_more_than_a_node_has_leaves_a_negative_rest() -> None:
    assert loaded(cluster(offering()), "p", "n", Resources(9000, 1)).free("n") == Resources(-1000, 4095)


def test_a_change_of_cpu_and_memory_leaves_books_and_scores() -> None:
    ledger = cluster(offering())
    score(ledger, pod_request(4), "n")
    books, key = ledger.books, next(iter(ledger.score_cache._scores))
    changed = loaded(ledger, "p", "n")
    assert changed.books is books
    assert "n" in changed.score_cache.scores(key)


def test_the_changed_nodes_are_those_of_the_last_events() -> None:
    ledger = cluster(offering("a"), offering("b"))
    assert ledger.changed == {"a", "b"}
    ledger = loaded(ledger, "p", "a")
    assert ledger.changed == {"a"}
    assert loaded(ledger, "p", "b").changed == {"a", "b"}
    assert apply(ledger, PodObserved(pod("q", at="b", card=0))).changed == {"b"}
