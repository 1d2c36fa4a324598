"""Results of a bind: GPUs for users, errors for the scheduler, reasons for operators."""

import pytest

from gpushare.errors import FENCED, ApiError
from gpushare.extender.decision import BOUND, Decision, bound_already, decided, reason_of, units_of_lowest
from gpushare.model.annotations import Shares
from gpushare.model.demand import Amount
from gpushare.scheduling.events import Reserved
from gpushare.scheduling.ledger import Ledger, apply
from tests.support.builders.scheduling import cluster, demand, node, pod

SHARES: Shares = ((0, Amount(4)), (1, Amount(4)))
WANTED = demand(8, cards=2)


def reported(ledger: Ledger) -> Decision:
    return decided(pod("p", WANTED), ledger.books["n"], WANTED, SHARES)


def test_the_free_units_are_the_same_before_and_after_the_reservation() -> None:
    before = cluster(node("n", 14, 22), pod("q", 3, at="n", card=0))
    text = "placed on node n: 4 units on GPU 0 (7 of 14 left), 4 units on GPU 1 (18 of 22 left)"
    assert reported(before).text == text
    assert reported(apply(before, Reserved(pod("p", WANTED), WANTED, "n", SHARES))).text == text


def test_a_gpu_that_the_node_has_lost_is_named_without_numbers() -> None:
    assert reported(cluster(node("n", 14))).text.endswith(
        "4 units on GPU 0 (10 of 14 left), 4 units on GPU 1"
    )


def test_the_size_annotation_of_the_aliyun_extender_is_that_of_the_lowest_gpu() -> None:
    assert units_of_lowest(cluster(node("n", 14, 22)).books["n"], SHARES) == 14
    assert units_of_lowest(cluster(node("n")).books["n"], SHARES) == 0


def test_a_pod_that_is_where_it_is_wanted_is_bound() -> None:
    there = pod("p", 4, at="n", card=0)
    assert bound_already(there, "n") is BOUND
    assert bound_already(there, "m").error == "pod default/p is already bound to node n"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ApiError("gone", status=404), "not_found"),
        (ApiError("no", status=403), "api_403"),
        (ApiError("kept back", reason=FENCED, unsent=True), "fenced"),
        (ApiError("no connection", reason="Unreachable", unsent=True), "unsent"),
    ],
)
def test_the_reason_of_a_rejection_is_a_class_for_metrics(error: ApiError, reason: str) -> None:
    assert reason_of(error) == reason
