"""Evictions that make room, in any cluster."""

from hypothesis import given
from hypothesis import strategies as st

from gpushare.model.disruption import DisruptionBudget
from gpushare.scheduling.book import Book, without
from gpushare.scheduling.fitting import PodRequest, fits
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.preemption import violating
from gpushare.scheduling.room.evictions import NoRoom, Room, room_steps
from tests.property.strategies import crowded, preemptors
from tests.support.builders.scheduling import budget
from tests.support.steps import finished

PODS = ("p0", "p1", "p2", "p3", "p4", "p5")


def fits_without(book: Book, who: PodRequest, gone: frozenset[str]) -> bool:
    going = frozenset(r.uid for r in book.reservations.values() if r.terminating)
    return fits(without(book, going | gone), who)


@given(ledger=crowded(), who=preemptors(), stay=st.sets(st.sampled_from(PODS)), data=st.data())
def test_a_plan_is_allowed_enough_and_has_no_pod_too_many(
    ledger: Ledger, who: PodRequest, stay: set[str], data: st.DataObject
) -> None:
    covered = data.draw(st.sets(st.sampled_from(PODS)))
    allowed = data.draw(st.integers(0, 2))

    def budgets_of(uid: str) -> list[DisruptionBudget]:
        return [budget(allowed=allowed)] if uid in covered else []

    book = ledger.books["n0"]
    found = finished(room_steps(ledger.books, who, ("n0", "gone"), lambda uid: uid not in stay, budgets_of))
    if isinstance(found, NoRoom):
        assert not fits_without(book, who, frozenset())
        return
    victims = frozenset(found.victims)
    assert isinstance(found, Room)
    assert fits_without(book, who, victims)
    for uid in victims:
        assert book.reservations[uid].priority < who.priority
        assert uid not in stay
        assert not book.reservations[uid].terminating
        assert not fits_without(book, who, victims - {uid})
    assert not violating(found.victims, budgets_of)
