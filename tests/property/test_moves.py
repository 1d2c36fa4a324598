"""Compaction, in any cluster: simulated on the ledger."""

from hypothesis import given
from hypothesis import strategies as st

from gpushare.scheduling.book import Book, without
from gpushare.scheduling.fitting import PodRequest, fits
from gpushare.scheduling.room.evictions import comes
from gpushare.scheduling.room.moves import Compaction, Move, compaction_steps
from tests.property.strategies import preemptors
from tests.support.builders.scheduling import cluster, node, pod
from tests.support.steps import finished

NODES = ("a", "b", "c")


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Book]:
    """Three nodes with one or two GPUs, and pods on them."""
    sizes = {name: draw(st.lists(st.integers(6, 14), min_size=1, max_size=2)) for name in NODES}
    things = [node(name, *units) for name, units in sizes.items()]
    pods = []
    for name, units in sizes.items():
        for card, most in enumerate(units):
            left = most
            for number in range(draw(st.integers(0, 3))):
                if left:
                    asks = draw(st.integers(1, left))
                    left -= asks
                    pods.append(
                        pod(
                            f"{name}{card}{number}",
                            asks,
                            at=name,
                            card=card,
                            priority=draw(st.integers(0, 3)),
                            terminating=draw(st.sampled_from((False, False, False, True))),
                        )
                    )
    return dict(cluster(*things, *pods).books)


@given(books=clusters(), who=preemptors(), data=st.data())
def test_every_moved_pod_has_a_place_while_nobody_has_left(
    books: dict[str, Book], who: PodRequest, data: st.DataObject
) -> None:
    bound = [r for book in books.values() for r in book.reservations.values() if not r.terminating]
    free = data.draw(st.sets(st.sampled_from([r.uid for r in bound]))) if bound else set()
    movable = {r.uid: PodRequest(r.uid, r.demand, r.priority) for r in bound if r.uid in free}
    closed = data.draw(st.sets(st.sampled_from(NODES)))

    def admits(uid: str, name: str, moves: tuple[Move, ...]) -> bool:  # noqa: ARG001 - an Admits
        return name not in closed

    found = finished(compaction_steps(books, who, NODES, movable, admits))
    if not isinstance(found, Compaction):
        return
    moved = frozenset(move.uid for move in found.moves)
    assert moved <= movable.keys()
    assert moved <= books[found.node].reservations.keys()
    # No GPU is promised more than it has, even if every replacement comes before any pod leaves.
    for name, book in found.books.items():
        left = book.reservations.keys() & books[name].reservations.keys()
        together = [*(r for uid, r in book.reservations.items() if uid not in left and uid != who.uid)]
        assert not book.overcommitted
        assert all(name not in closed for _ in together)
    assert not moved & {uid for book in found.books.values() for uid in book.reservations}
    assert comes(without(found.books[found.node], frozenset({who.uid})), who)
    # None is moved in vain.
    before = books[found.node]
    going = frozenset(r.uid for r in before.reservations.values() if r.terminating)
    for uid in moved:
        assert not fits(without(before, going | (moved - {uid})), who)
