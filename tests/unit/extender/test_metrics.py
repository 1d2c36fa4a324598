"""Gauges of the extender that are computed at a scrape."""

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from gpushare.extender.ledger_page import LedgerPage
from gpushare.extender.node_cache import NodeCache
from gpushare.model.demand import Malformed
from gpushare.model.objects import Pod
from gpushare.scheduling.book import Book
from gpushare.scheduling.events import Reserved
from gpushare.scheduling.ledger import EMPTY_LEDGER, Ledger, apply
from tests.support.builders.scheduling import cluster, demand, node, pod, seen
from tests.support.steps import counted, finished

Samples = dict[tuple[str, tuple[str, ...]], float]


def samples(ledger: Ledger = EMPTY_LEDGER, *pods: Pod) -> Samples:
    """Values by name and labels, in the order of their names."""
    page = finished(LedgerPage(lambda: ledger, lambda: pods).steps()).decode()
    return {
        (
            sample.name.removeprefix("gpushare_"),
            tuple(value for _, value in sorted(sample.labels.items())),
        ): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def pending(*pods: Pod) -> tuple[float | None, float | None]:
    """The number of waiting pods, and the smallest request among them."""
    found = samples(EMPTY_LEDGER, *pods)
    return found.get(("pods_pending", ())), found.get(("pods_pending_min_units", ()))


def test_pods_without_a_node_wait() -> None:
    assert pending(pod("a", 6), pod("b", 4), pod("c", 2, at="n")) == (2, 4)


def test_a_pod_on_several_gpus_requests_its_units_of_each() -> None:
    assert pending(pod("a", demand(6, cards=3))) == (1, 2)


def test_a_pod_that_ends_waits_for_nothing() -> None:
    assert pending(pod("a", finished=True), pod("b", terminating=True)) == (0, None)


def test_a_pod_that_gates_hold_back_does_not_wait_for_a_gpu() -> None:
    assert pending(replace(pod("a", 4), gated=True), pod("b", 6)) == (1, 6)


def test_pods_that_request_no_units_or_are_malformed_are_not_counted() -> None:
    assert pending(pod("a", 0), pod("b", Malformed("nonsense"))) == (0, None)


def test_a_gpu_has_its_size_and_its_free_units() -> None:
    found = samples(cluster(node("n", 14, 22, broken=(1,)), pod("a", 4, at="n", card=0)))
    assert [found["card_units", (card, "n")] for card in "01"] == [14, 22]
    assert [found["card_free_units", (card, "n")] for card in "01"] == [10, 22]
    assert found["cards_unschedulable", ("n",)] == 1
    assert found["cards_overcommitted", ()] == 0


def test_a_closed_node_has_no_free_units() -> None:
    found = samples(cluster(node("n", 14, 14, closed="why"), pod("a", 4, at="n", card=0)))
    assert [found["card_units", (card, "n")] for card in "01"] == [14, 14]
    assert [found["card_free_units", (card, "n")] for card in "01"] == [0, 0]
    assert found["cards_unschedulable", ("n",)] == 2


def test_an_overcommitted_gpu_has_fewer_than_no_free_units() -> None:
    found = samples(cluster(node("n", 14), pod("a", 10, at="n", card=0), pod("b", 10, at="n", card=0)))
    assert (found["card_free_units", ("0", "n")], found["cards_overcommitted", ()]) == (-6, 1)


def test_reservations_are_counted_by_state() -> None:
    ledger = cluster(node("n", 14, 14), pod("a", 4, at="n", card=0), pod("b", 4, at="n"))
    asking = pod("c", 4)
    ledger = apply(ledger, Reserved(asking, demand(4), "n", ((1, demand(4).per_card),)))
    found = samples(ledger)
    assert {state: found["reservations", (state,)] for state in ("bound", "unconfirmed", "unplaced")} == {
        "bound": 1,
        "unconfirmed": 1,
        "unplaced": 1,
    }


def test_only_books_that_changed_are_computed_again() -> None:
    made: list[str] = []

    def name(book: Book) -> str:
        made.append(book.name)
        return book.name

    values = NodeCache(name)
    ledger = cluster(node("a", 14), node("b", 14))
    assert finished(values.steps(ledger)) == ["a", "b"]
    changed = seen(ledger, node("c", 14), pod("x", 4, at="b", card=0))
    assert finished(values.steps(changed)) == ["a", "b", "c"]
    assert made == ["a", "b", "b", "c"]
    assert finished(values.steps(cluster(node("c", 14)))) == ["c"]


def test_the_page_of_a_large_cluster_is_computed_in_many_steps() -> None:
    ledger = cluster(*(node(f"n{i}", 14) for i in range(1000)))
    steps, _ = counted(LedgerPage(lambda: ledger, lambda: [pod("w")] * 3000).steps())
    assert steps == 1000 + 1 + 6
