"""How many pods fit, in any cluster: the count is what binds one after the other would reach."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpushare.scheduling.advice.capacity import fitting_pods, largest_request, rooms_of
from gpushare.scheduling.book import Book, Reservation, with_reservation
from gpushare.scheduling.fitting import PodRequest, Rejection, fits, place
from gpushare.scheduling.ledger import Ledger
from tests.property.strategies import ledgers
from tests.support.builders.scheduling import pod_request


def bound_one_by_one(book: Book, units: int, gpus: int) -> int:
    """How many pods the extender could bind to the node, one after the other."""
    for number in range(1000):
        request = asking(units, gpus, f"next-{number}")
        shares = place(book, request)
        if isinstance(shares, Rejection):
            return number
        assert book.node is not None
        book = with_reservation(
            book, Reservation(request.uid, "", request.demand, shares, mode=book.node.mode)
        )
    raise AssertionError("a node takes pods without end")


def asking(units: int, gpus: int, uid: str = "seeker") -> PodRequest:
    """A pod with so many units on each of so many GPUs."""
    request = pod_request(units * gpus, uid=uid)
    return replace(request, demand=replace(request.demand, cards=gpus))


def counted(book: Book, units: int, gpus: int) -> int:
    return fitting_pods(rooms_of(book, asking(1, gpus)), units, gpus)


@given(ledgers(), st.integers(1, 20))
def test_pods_on_one_gpu_are_counted_as_binds_would_place_them(ledger: Ledger, units: int) -> None:
    for book in ledger.books.values():
        if not book.nominees:
            assert counted(book, units, 1) == bound_one_by_one(book, units, 1)


@given(ledgers(), st.integers(1, 20), st.integers(2, 3))
def test_pods_on_several_gpus_are_at_least_those_that_binds_would_place(
    ledger: Ledger, units: int, gpus: int
) -> None:
    for book in ledger.books.values():
        if not book.nominees:
            assert counted(book, units, gpus) >= bound_one_by_one(book, units, gpus)


@given(ledgers(), st.integers(1, 20), st.integers(1, 3))
def test_a_pod_fits_exactly_if_the_count_is_not_zero(ledger: Ledger, units: int, gpus: int) -> None:
    for book in ledger.books.values():
        assert (counted(book, units, gpus) > 0) is fits(book, asking(units, gpus))


@given(ledgers(), st.integers(1, 3))
def test_the_largest_request_fits_and_one_unit_more_does_not(ledger: Ledger, gpus: int) -> None:
    for book in ledger.books.values():
        units = largest_request(rooms_of(book, asking(1, gpus)), gpus)
        assert units == 0 or fits(book, asking(units, gpus))
        assert not fits(book, asking(units + 1, gpus))
