"""The cheapest evictions that make room on one node."""

from gpushare.model.disruption import Budgets, DisruptionBudget
from gpushare.model.objects import Pod
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.preemption import BudgetsOf, no_budgets
from gpushare.scheduling.room.evictions import NoRoom, Room, is_needed, room_steps
from tests.support.builders.scheduling import budget, cluster, node, pod, pod_request
from tests.support.steps import finished

HIGH = pod_request(12, priority=1000)


def found(ledger: Ledger, *stay: str, budgets_of: BudgetsOf = no_budgets) -> Room | NoRoom:
    """The room for a pod of 12 units; the pods ``stay`` may not be evicted."""
    names = tuple(ledger.books)
    return finished(room_steps(ledger.books, HIGH, names, lambda uid: uid not in stay, budgets_of))


def halves(name: str, *priorities: int) -> list[Pod]:
    """A pod of 8 units on each GPU of a node, with these priorities."""
    return [
        pod(f"{name}{card}", 8, at=name, card=card, priority=each) for card, each in enumerate(priorities)
    ]


def test_the_lowest_priority_on_any_node_is_evicted() -> None:
    ledger = cluster(node("a", 14, 14), node("b", 14, 14), *halves("a", 5, 7), *halves("b", 9, 3))
    assert found(ledger) == Room("b", ("b1",))


def test_the_lowest_top_priority_wins_over_fewer_pods() -> None:
    ledger = cluster(
        node("a", 14), node("b", 14), *halves("a", 5), *(pod(f"b{i}", 6, at="b", card=0) for i in range(2))
    )
    assert found(ledger) == Room("b", ("b1", "b0"))


def test_pods_that_terminate_count_before_any_eviction() -> None:
    ledger = cluster(
        node("a", 14), node("b", 14), *halves("a", 5), pod("b0", 8, at="b", card=0, terminating=True)
    )
    assert found(ledger) == Room("b")


def test_only_what_terminating_pods_do_not_free_is_evicted() -> None:
    ledger = cluster(
        node("a", 14), pod("going", 4, at="a", card=0, terminating=True), pod("low", 8, at="a", card=0)
    )
    assert found(ledger) == Room("a", ("low",))


def test_equal_and_higher_priorities_and_pods_that_must_stay_are_spared() -> None:
    ledger = cluster(node("a", 14, 14, 14), *halves("a", 1000, 2000, 1))
    assert found(ledger, "a2") is NoRoom.PRIORITY


def test_a_budget_sends_the_eviction_to_another_node_or_makes_the_pod_wait() -> None:
    pods = [pod("a0", 8, at="a", card=0, labels={"app": "x"}), pod("b0", 8, at="b", card=0, priority=9)]
    index = Budgets([budget(app="x")])
    known = {each.uid: each for each in pods}

    def budgets_of(uid: str) -> tuple[DisruptionBudget, ...]:
        return index.covering(known[uid])

    both = cluster(node("a", 14), node("b", 14), *pods)
    assert found(both, budgets_of=budgets_of) == Room("b", ("b0",))
    assert found(both, "b0", budgets_of=budgets_of) is NoRoom.BUDGETS


def test_an_eviction_is_needed_while_the_pod_fits_only_after_it() -> None:
    book = cluster(node("a", 14), *halves("a", 1)).books["a"]
    assert is_needed(book, HIGH, frozenset({"a0"}))
    assert not is_needed(book, HIGH, frozenset())
    assert not is_needed(cluster(node("a", 14)).books["a"], HIGH, frozenset({"a0"}))
