"""Compaction: which pods to move so that a waiting pod fits on one node. Pure.

A pod is moved by its eviction: its controller creates another one, which the scheduler places. So each pod of
a plan has to fit somewhere *while all pods of the plan terminate* and the waiting pod is nominated to
the node: neither what terminates nor the room of the waiting pod is a place. Then the plan leaves no pod with
nowhere to go. No pod is moved for a pod of lower priority, to which it would not leave the room.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from gpushare.model.annotations import Shares
from gpushare.scheduling.allowed_gpus import is_followed
from gpushare.scheduling.book import Book, Nominee, Reservation, with_reservation, without
from gpushare.scheduling.fitting import PodRequest, Rejection, place
from gpushare.scheduling.preemption import BudgetsOf, no_budgets, victims_steps
from gpushare.scheduling.room.evictions import comes

_AFTER_MOVE: Final = "/moved"
"""Ends the UID of a replacement, which does not exist yet."""


class Move(NamedTuple):
    """A pod, and a node where it fits now."""

    uid: str
    target: str


Admits = Callable[[str, str, tuple[Move, ...]], bool]
"""Whether a pod (by UID) may go to a node, apart from its GPUs, after these moves."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """The node that the waiting pod gets, the moves in order, and the books after all of it."""

    node: str
    moves: tuple[Move, ...]
    books: Mapping[str, Book]

    @property
    def cost(self) -> tuple[int, int]:
        """The fewest pods, then the fewest units."""
        moved = (self.books[move.target].reservations[move.uid + _AFTER_MOVE] for move in self.moves)
        return len(self.moves), sum(reservation.demand.mem for reservation in moved)


def compaction_steps(
    books: Mapping[str, Book],
    pod_request: PodRequest,
    nodes: Iterable[str],
    movable: Mapping[str, PodRequest],
    admits: Admits,
    budgets_of: BudgetsOf = no_budgets,
) -> Generator[None, None, Compaction | None]:
    """The cheapest compaction for a pod on one of the nodes, None if there is none. Yields often.

    ``movable`` are the pods that may be moved, by UID, as requests.
    """
    best: Compaction | None = None
    for name in nodes:
        found = yield from _on_node_steps(books, pod_request, name, movable, admits, budgets_of)
        if found and (best is None or found.cost < best.cost):
            best = found
    return best


def _on_node_steps(
    books: Mapping[str, Book],
    pod_request: PodRequest,
    name: str,
    movable: Mapping[str, PodRequest],
    admits: Admits,
    budgets_of: BudgetsOf,
) -> Generator[None, None, Compaction | None]:
    """The compaction on one node. A pod without another place stays, and the others are tried.

    A pod stays too if another one uses the same GPU as it.
    """
    most, book = pod_request.priority, books[name]
    candidates = {
        r.uid
        for r in book.reservations.values()
        if r.uid in movable and r.priority <= most and not is_followed(book, r)
    }
    while candidates:
        found = yield from victims_steps(
            books[name], pod_request, (), budgets_of, lambda r: r.confirmed and r.uid in candidates
        )
        if found is None or found.violations or not found.uids:
            return None
        pods = {uid: movable[uid] for uid in found.uids}
        clearing = {**books, name: _clearing(books[name], pods, pod_request)}
        moved = yield from _moved_steps(clearing, name, pods, admits)
        if isinstance(moved, str):
            candidates.discard(moved)
            continue
        moves, after = moved
        book = replace(without(after[name], frozenset(pods)), nominees=books[name].nominees)
        if not comes(book, pod_request):
            return None
        return Compaction(name, moves, with_pod({**after, name: book}, name, pod_request))
    return None


def _clearing(book: Book, pods: Iterable[str], pod_request: PodRequest) -> Book:
    """The book while the pods terminate, and the waiting pod is nominated to the node."""
    going = {uid: replace(book.reservations[uid], terminating=True) for uid in pods}
    waiting = Nominee(
        pod_request.uid, "", pod_request.demand, pod_request.priority, placement=pod_request.placement
    )
    return replace(
        book,
        reservations={**book.reservations, **going},
        nominees={**book.nominees, pod_request.uid: waiting},
    )


def _moved_steps(
    books: Mapping[str, Book], source: str, pods: Mapping[str, PodRequest], admits: Admits
) -> Generator[None, None, tuple[tuple[Move, ...], dict[str, Book]] | str]:
    """The moves of all pods of a node, the largest first, with the books after them; or a UID that stays."""
    after, moves = dict(books), tuple[Move, ...]()
    for uid in sorted(pods, key=lambda each: (-pods[each].demand.mem, each)):
        request = PodRequest(uid + _AFTER_MOVE, pods[uid].demand, pods[uid].priority, pods[uid].placement)
        for name in sorted(after):
            shares = place(after[name], request)
            if not isinstance(shares, Rejection) and admits(uid, name, moves):
                goes = books[source].reservations[uid]
                # Other pods may keep away from it by its labels.
                comes_back = replace(goes, uid=request.uid, claim=shares, terminating=False, mode=None)
                after[name] = with_reservation(after[name], comes_back)
                moves = (*moves, Move(uid, name))
                break
            yield
        else:
            return uid
    return moves, after


def with_pod(books: dict[str, Book], name: str, pod_request: PodRequest) -> dict[str, Book]:
    """The books with the waiting pod, for the next plan; without it while terminating pods are there."""
    shares = place(books[name], pod_request)
    if isinstance(shares, Rejection):
        return books
    return {**books, name: _reserved(books[name], pod_request, shares)}


def _reserved(book: Book, request: PodRequest, shares: Shares) -> Book:
    return with_reservation(
        book, Reservation(request.uid, "", request.demand, shares, priority=request.priority)
    )
