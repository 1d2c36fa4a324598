"""One node's book: free units, schedulable GPUs, and the sums that filter uses."""

from dataclasses import replace

import pytest

from gpushare.model.cards import Card
from gpushare.model.demand import Amount
from gpushare.model.modes import Mode
from gpushare.scheduling.advice.refusals import summary
from gpushare.scheduling.book import Book, CardUsage, Reservation, reserved_shares, with_reservation, without
from tests.support.builders.scheduling import T4, cluster, demand, free_core, node, pod


def book_of(*things: object) -> Book:
    return cluster(*things).books["n"]  # type: ignore[arg-type]


def usage(units: int, free: int, *, core: int = 0, open_: bool = True) -> CardUsage:
    card = node("n", units).cards[0]
    return CardUsage(card, Amount(free, core), Amount(units, core), open_)


def test_a_gpu_takes_at_most_its_free_units() -> None:
    assert usage(T4, 4).fits(Amount(4))
    assert not usage(T4, 4).fits(Amount(5))


def test_a_gpu_takes_at_most_its_free_memory_and_compute() -> None:
    assert usage(T4, 4, core=30).fits(Amount(4, 30))
    assert not usage(T4, 4, core=30).fits(Amount(4, 35))
    assert not usage(T4, 4).fits(Amount(4, 5))


def test_an_unschedulable_gpu_takes_nothing_not_even_zero_units() -> None:
    assert not usage(T4, 4, open_=False).fits(Amount(0))


def test_an_overcommitted_gpu_is_unschedulable_and_its_debt_is_a_negative_number() -> None:
    book = book_of(node("n", T4, T4), pod("a", 10, at="n", card=0), pod("b", 10, at="n", card=0))
    assert book.usages[0].free == Amount(-6)
    assert not book.usages[0].schedulable
    assert [usage.card.index for usage in book.overcommitted] == [0]


def test_compute_can_be_overcommitted_too() -> None:
    holders = [pod(uid, demand(2, core=60), at="n", card=0) for uid in ("a", "b")]
    book = book_of(node("n", T4, mode=Mode.MPS), *holders)
    assert book.usages[0].free == Amount(10, -20)
    assert not book.usages[0].schedulable
    assert book.overcommitted == book.usages


def test_compute_that_a_share_node_does_not_have_is_overcommitted() -> None:
    book = book_of(node("n", T4), pod("a", demand(2, core=5), at="n", card=0))
    assert not book.usages[0].schedulable


def test_widest_is_the_most_that_fits_without_a_full_check() -> None:
    assert book_of(node("n", T4, 8), pod("a", 12, at="n", card=0)).fits_up_to == 8
    assert book_of(node("n", T4, 8), pod("a", 3, at="n", card=0)).fits_up_to == 11
    assert book_of(node("n", T4), pod("a", T4, at="n", card=0)).fits_up_to == 0


def test_an_unschedulable_gpu_is_not_wide() -> None:
    assert book_of(node("n", T4, 8, broken=(0,))).fits_up_to == 8
    assert book_of(node("n", T4, broken=(0,))).fits_up_to == -1


def test_a_full_check_is_needed_if_more_than_memory_counts() -> None:
    assert book_of(node("n", T4, closed="label")).fits_up_to == -1
    assert book_of(node("n", T4, mode=Mode.CORE_MEM)).fits_up_to == -1
    assert book_of(node("n", T4), pod("a", 4, nominated="n")).fits_up_to == -1
    assert book_of(pod("a", 4, at="n", card=0)).fits_up_to == -1
    assert book_of(node("n", T4, mode=Mode.MPS)).fits_up_to == -1
    assert book_of(node("n", T4, mode=Mode.MPS, multi_user=True)).fits_up_to == T4


def test_largest_is_the_size_of_the_largest_gpu() -> None:
    assert book_of(node("n", 8, T4, broken=(1,)), pod("a", 8, at="n", card=0)).largest == T4
    assert book_of(node("n")).largest == -1


def test_a_gpu_with_pods_of_another_mode_is_unschedulable_until_they_are_gone() -> None:
    things = node("n", T4, T4, mode=Mode.CGPU), pod("a", 4, at="n", card=0, mode=Mode.SHARE)
    book = book_of(*things)
    assert [usage.schedulable for usage in book.usages] == [False, True]
    assert (
        summary(book.usages)
        == "at most 14 of 14 free on GPU 1 (unschedulable: GPU 0 until pods of mode share are gone)"
    )
    assert without(book, frozenset({"a"})).usages[0].schedulable


def test_pods_of_the_nodes_own_mode_and_of_an_unknown_one_close_nothing() -> None:
    book = book_of(
        node("n", T4, T4, mode=Mode.CGPU),
        pod("a", 4, at="n", card=0, mode=Mode.CGPU),
        pod("b", 4, at="n", card=1),
    )
    assert all(usage.schedulable for usage in book.usages)


def test_a_pod_of_another_mode_with_an_unknown_gpu_excludes_every_gpu() -> None:
    book = book_of(node("n", T4, T4, mode=Mode.CGPU), pod("a", 4, at="n", mode=Mode.MPS))
    assert summary(book.usages) == "no GPU is usable (unschedulable: GPU 0,1 until pods of mode mps are gone)"


def test_all_modes_that_a_gpu_waits_for_are_reported() -> None:
    modes = {"a": Mode.MPS, "b": Mode.SHARE, "c": Mode.CGPU}
    book = book_of(
        node("n", T4, mode=Mode.CGPU), *(pod(uid, 2, at="n", card=0, mode=m) for uid, m in modes.items())
    )
    assert summary(book.usages).endswith("(unschedulable: GPU 0 until pods of mode mps and share are gone)")


def test_a_gpu_with_as_many_pods_as_it_may_take_is_unschedulable_with_the_numbers() -> None:
    things = node("n", T4, T4, pods_per_card=2), *(pod(uid, 2, at="n", card=0) for uid in "ab")
    book = book_of(*things)
    assert [usage.schedulable for usage in book.usages] == [False, True]
    assert summary(book.usages) == "at most 14 of 14 free on GPU 1 (unschedulable: GPU 0 with 2 of 2 pods)"
    assert book.fits_up_to == T4
    assert book.overcommitted == ()


def test_more_pods_than_a_gpu_may_take_are_reported_as_they_are() -> None:
    book = book_of(node("n", T4, pods_per_card=2), *(pod(uid, 2, at="n", card=0) for uid in "abc"))
    assert summary(book.usages) == "no GPU is usable (unschedulable: GPU 0 with 3 of 2 pods)"


@pytest.mark.parametrize("card", [0, None], ids=["known", "unknown"])
def test_a_pod_of_zero_units_is_on_no_gpu(card: int | None) -> None:
    idle = pod("idle", 0, at="n", card=card, mode=Mode.SHARE)
    book = book_of(node("n", T4, mode=Mode.CGPU, pods_per_card=1), idle)
    assert [usage.schedulable for usage in book.usages] == [True]


def test_an_unhealthy_gpu_is_reported_as_unhealthy_with_any_pods() -> None:
    book = book_of(
        node("n", T4, T4, mode=Mode.CGPU, broken=(0,)),
        pod("a", 4, at="n", card=0, mode=Mode.SHARE),
        pod("b", 4, at="n", card=1, mode=Mode.SHARE),
    )
    assert (
        summary(book.usages)
        == "no GPU is usable (unschedulable: GPU 0; GPU 1 until pods of mode share are gone)"
    )


def test_the_reason_of_the_node_agent_for_an_unhealthy_gpu_is_reported() -> None:
    card = Card(0, T4, healthy=False, fault="the driver asks for a reset of the GPU (recovery action 1)")
    usages = book_of(replace(node("n", T4), cards=(card,))).usages
    assert not usages[0].schedulable
    assert summary(usages) == (
        "no GPU is usable (unschedulable: GPU 0 is unhealthy: the driver asks for a reset of the GPU "
        "(recovery action 1))"
    )


def test_the_users_of_a_single_user_gpu_are_known() -> None:
    pods = pod("a", demand(2, user=7), at="n", card=0), pod("b", demand(2, user=None), at="n", card=0)
    assert book_of(node("n", T4, T4, mode=Mode.MPS), *pods).usages[0].users == {7, None}
    assert book_of(node("n", T4, T4, mode=Mode.MPS), *pods).usages[1].users == frozenset()
    assert book_of(node("n", T4, mode=Mode.MPS, multi_user=True), *pods).usages[0].users == frozenset()
    assert book_of(node("n", T4), *pods).usages[0].users == frozenset()


def test_a_book_without_a_pod_is_as_if_the_pod_had_never_been() -> None:
    things = node("n", T4, T4), pod("a", 4, at="n", card=0)
    book = book_of(*things, pod("b", 4, at="n"))
    assert without(book, frozenset({"b", "unknown"})).usages == book_of(*things).usages


def test_a_book_with_one_more_reservation_counts_it() -> None:
    more = Reservation("b", "default/b", demand(4), ((0, Amount(4)),))
    assert with_reservation(book_of(node("n", T4)), more).usages[0].free == Amount(10)


def test_compute_of_several_gpus_is_counted_on_each() -> None:
    ledger = cluster(
        node("n", T4, T4, T4, mode=Mode.CORE_MEM), pod("a", demand(8, core=60, cards=2), at="n", card=(0, 2))
    )
    assert free_core(ledger, "n") == [70, 100, 70]


def test_the_gpu_of_a_reservation_is_unknown_rather_than_guessed() -> None:
    claim = ((0, Amount(4)),)
    lies = Reservation("a", "default/a", demand(4), claim)
    assert reserved_shares(lies, node("n", T4)) == claim
    assert reserved_shares(lies, node("n")) is None
    assert reserved_shares(Reservation("a", "default/a", demand(8), claim), node("n", T4)) is None
    assert reserved_shares(Reservation("a", "default/a", demand(8, cards=2), claim), node("n", T4)) is None
    assert reserved_shares(lies, node("n", T4, assigned={"a": {0: 3}})) is None


def test_a_gpu_in_use_as_a_whole_gpu_has_nothing_free_and_reports_until_when() -> None:
    book = book_of(node("n", T4, T4, whole={0: ("default/app-3g-v1-0",)}))
    first, second = book.usages
    assert (first.free, first.schedulable, second.free) == (Amount(0), False, Amount(T4))
    assert summary(book.usages).endswith(
        "(unschedulable: GPU 0 until default/app-3g-v1-0 is gone, which has a whole GPU)"
    )
    assert (book.fits_up_to, book.largest, book.overcommitted) == (T4, T4, ())


def test_compute_of_a_gpu_in_use_as_a_whole_gpu_is_not_free_either() -> None:
    book = book_of(node("n", T4, mode=Mode.MPS, whole={0: ("default/a", "default/b")}))
    assert book.usages[0].free == Amount(0, 0)
    assert "until default/a and default/b are gone, which have a whole GPU" in summary(book.usages)


def test_pods_on_a_gpu_in_use_as_a_whole_gpu_are_beyond_its_size() -> None:
    book = book_of(node("n", T4, whole={0: ("default/app",)}), pod("a", 4, at="n", card=0))
    assert book.usages[0].free == Amount(-4)
    assert [usage.card.index for usage in book.overcommitted] == [0]
