"""Cached results are used as long as they are valid."""

from gpushare.scheduling.events import Confirmed, NodeDeleted, PodDeleted, Reserved
from gpushare.scheduling.ledger import Ledger, apply
from gpushare.scheduling.score_cache import ScoreCache
from tests.support.builders.scheduling import cluster, demand, node, pod

T4 = 14


def two_nodes() -> Ledger:
    return cluster(node("a", T4), node("b", T4), pod("p", 10, at="a", card=0))


def fits_up_to(ledger: Ledger) -> dict[str, int]:
    return dict(ledger.score_cache.fits_up_to(ledger.books))


def test_a_change_of_one_book_keeps_scores_of_the_others() -> None:
    ledger = two_nodes()
    assert fits_up_to(ledger) == {"a": 4, "b": 14}
    ledger.score_cache.scores("4").update(a=9, b=3)
    after = apply(ledger, PodDeleted("p"))
    assert fits_up_to(after) == {"a": 14, "b": 14}
    assert after.score_cache.scores("4") == {"b": 3}


def test_the_confirmation_of_a_bind_changes_nothing_that_is_known() -> None:
    wanted = pod("q", 2)
    reserved = apply(two_nodes(), Reserved(wanted, demand(2), "b", ((0, demand(2).per_card),)))
    reserved.score_cache.scores("4").update(a=9, b=3)
    assert apply(reserved, Confirmed("q")).score_cache.scores("4") == {"a": 9, "b": 3}


def test_no_entry_of_a_deleted_node_stays() -> None:
    ledger = cluster(node("a", T4), node("b", T4))
    assert fits_up_to(ledger) == {"a": 14, "b": 14}
    assert fits_up_to(apply(ledger, NodeDeleted("a"))) == {"b": 14}


def test_an_older_ledger_that_is_asked_again_starts_empty() -> None:
    ledger = two_nodes()
    ledger.score_cache.scores("4").update(a=9, b=3)
    apply(ledger, PodDeleted("p"))
    assert ledger.score_cache.scores("4") == {}
    assert fits_up_to(ledger) == {"a": 4, "b": 14}


def test_the_least_recently_used_demands_are_evicted() -> None:
    score_cache = ScoreCache()
    for number in range(64):
        score_cache.scores(str(number))["a"] = number
    assert score_cache.scores("0") == {"a": 0}
    score_cache.scores("64")["a"] = 64
    assert score_cache.scores("0") == {"a": 0}
    assert score_cache.scores("1") == {}
