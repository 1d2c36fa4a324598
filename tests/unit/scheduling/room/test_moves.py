"""Compaction: pods that fit elsewhere make room for one that waits."""

from dataclasses import replace

from gpushare.contract import ANN_OTHER_GPU, ANN_SAME_GPU
from gpushare.model.gpu_choice import gpu_choice
from gpushare.model.objects import Pod
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.preemption import BudgetsOf, no_budgets
from gpushare.scheduling.room.moves import Admits, Compaction, Move, compaction_steps
from tests.support.builders.scheduling import budget, cluster, demand, node, pod, pod_request
from tests.support.steps import finished

WAITING = pod_request(12)


def anywhere(uid: str, node: str, moves: tuple[Move, ...]) -> bool:  # noqa: ARG001 - an Admits
    return True


def found(
    ledger: Ledger, *movable: str, admits: Admits = anywhere, budgets_of: BudgetsOf = no_budgets
) -> Compaction | None:
    requests = {
        r.uid: pod_request(r.demand, uid=r.uid, priority=r.priority)
        for book in ledger.books.values()
        for r in book.reservations.values()
        if r.uid in movable
    }
    return finished(
        compaction_steps(ledger.books, WAITING, sorted(ledger.books), requests, admits, budgets_of)
    )


def moves(compaction: Compaction | None) -> tuple[str, tuple[Move, ...]] | None:
    return (compaction.node, compaction.moves) if compaction else None


def spread(*pods: Pod) -> Ledger:
    """Two nodes with one GPU of 14 units."""
    return cluster(node("a", 14), node("b", 14), *pods)


def test_a_pod_that_fits_elsewhere_is_moved() -> None:
    ledger = spread(pod("a0", 6, at="a", card=0), pod("b0", 8, at="b", card=0))
    assert moves(found(ledger, "a0", "b0")) == ("a", (Move("a0", "b"),))


def test_a_pod_with_nowhere_to_go_stays() -> None:
    ledger = spread(pod("a0", 6, at="a", card=0), pod("b0", 9, at="b", card=0))
    assert found(ledger, "a0", "b0") is None


def test_the_place_of_a_moved_pod_is_taken() -> None:
    """Each alone would fit on b, both do not."""
    pods = [pod(f"a{i}", 6, at="a", card=0) for i in range(2)]
    assert found(spread(*pods, pod("b0", 5, at="b", card=0)), "a0", "a1") is None


def test_another_gpu_of_the_same_node_is_a_place() -> None:
    ledger = cluster(node("a", 14, 14), pod("a0", 6, at="a", card=0), pod("a1", 8, at="a", card=1))
    assert moves(found(ledger, "a0", "a1")) == ("a", (Move("a0", "a"),))


def test_a_pod_stays_while_another_one_uses_the_same_gpu_because_of_it() -> None:
    joins = replace(demand(2), gpus=gpu_choice(((ANN_SAME_GPU, "a0"),), "default"))
    friend = pod("a1", joins, at="a", card=0)
    ledger = cluster(node("a", 14), node("b", 14), pod("a0", 6, at="a", card=0), friend)
    assert found(ledger, "a0") is None


def test_moved_pods_keep_away_from_each_other() -> None:
    """Each of the two would fit on either of the two nodes, beside the other one only by its labels."""
    apart = replace(demand(2), gpus=gpu_choice(((ANN_OTHER_GPU, "app=web"),), "default"))
    web = [pod(f"w{at}", apart, at="a", card=at, labels={"app": "web"}) for at in range(2)]
    others = [pod(f"o{at}", 8, at="a", card=at) for at in range(2)]
    ledger = cluster(node("a", 14, 14), node("b", 4), node("c", 4), *web, *others)
    two = replace(WAITING, demand=demand(12, cards=2))
    requests = {each.uid: pod_request(apart, uid=each.uid) for each in web}
    found = finished(compaction_steps(ledger.books, two, sorted(ledger.books), requests, anywhere))
    assert moves(found) == ("a", (Move("w0", "b"), Move("w1", "c")))


def test_what_else_the_pod_needs_decides_too() -> None:
    ledger = spread(pod("a0", 6, at="a", card=0), pod("b0", 8, at="b", card=0))
    assert found(ledger, "a0", admits=lambda *asked: asked[1] == "a") is None


def test_the_fewest_pods_are_moved_then_the_fewest_units() -> None:
    ledger = cluster(
        node("a", 14),
        node("b", 14),
        node("c", 14),
        *(pod(f"a{i}", 2, at="a", card=0) for i in range(2)),
        pod("b0", 5, at="b", card=0),
        pod("c0", 4, at="c", card=0),
    )
    assert moves(found(ledger, "a0", "a1", "b0", "c0")) == ("a", (Move("a1", "b"),))
    assert moves(found(ledger, "b0", "c0")) == ("c", (Move("c0", "a"),))


def test_no_pod_is_moved_for_a_pod_of_lower_priority() -> None:
    ledger = spread(pod("a0", 6, at="a", card=0, priority=1), pod("b0", 8, at="b", card=0))
    assert found(ledger, "a0") is None


def test_the_gpu_of_the_waiting_pod_is_no_place_for_the_moved_one() -> None:
    """It has 8 free units while the pod of 6 terminates."""
    assert found(cluster(node("a", 14), pod("a0", 6, at="a", card=0)), "a0") is None


def test_a_disruption_budget_keeps_a_pod_where_it_is() -> None:
    ledger = spread(pod("a0", 6, at="a", card=0), pod("b0", 8, at="b", card=0))
    assert found(ledger, "a0", budgets_of=lambda _: [budget(allowed=0)]) is None


def test_a_pod_on_several_gpus_is_moved_as_a_whole() -> None:
    whole = pod("a0", demand(8, cards=2), at="a", card=(0, 1))
    taken = [pod(f"b{i}", 9, at="b", card=i) for i in range(2)]
    assert moves(found(cluster(node("a", 14, 14), node("b", 14, 14), whole, *taken), "a0")) == (
        "a",
        (Move("a0", "b"),),
    )
    assert found(cluster(node("a", 14, 14), node("b", 14), whole, taken[0]), "a0") is None


def test_the_next_plan_begins_where_the_last_one_ends() -> None:
    ledger = spread(pod("a0", 6, at="a", card=0), pod("b0", 8, at="b", card=0))
    first = found(ledger, "a0")
    assert first is not None
    assert [usage.free.mem for name in "ab" for usage in first.books[name].usages] == [2, 0]
