"""How many pods of one size fit on a node now, and the largest size that fits. Pure.

Which GPUs a pod may use comes from ``fitting``, as in the extender. On one GPU each, the number is the one
that binds would reach. On several GPUs it is the most that any order of binds can reach.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpushare.scheduling.book import Book, reserved_shares
from gpushare.scheduling.fitting import PodRequest, after_nominees, fitting_cards, unfit


@dataclass(frozen=True, slots=True)
class Room:
    """What one GPU can still take: units, and a number of pods; None for any number."""

    units: int
    pods: int | None = None

    def pods_of(self, units: int) -> int:
        """How many pods of so many units fit on the GPU."""
        found = self.units // units
        return found if self.pods is None else min(found, self.pods)


def rooms_of(book: Book, pod_request: PodRequest) -> tuple[Room, ...]:
    """The GPUs that can take the pod, largest first; none if the node cannot take it.

    Call it with the smallest request: the rooms then answer for larger ones too.
    """
    if book.node is None or unfit(book, pod_request.demand):
        return ()
    later = {usage.card.index: usage.free.mem for usage in after_nominees(book, pod_request).usages}
    most = book.node.pods_per_card
    pods = _pods_by_gpu(book) if most else Counter()
    found = [
        Room(
            min(usage.free.mem, later[usage.card.index]),
            most - pods[usage.card.index] if most else None,
        )
        for usage in fitting_cards(book, pod_request)
    ]
    return tuple(sorted(found, key=lambda room: -room.units))


def fitting_pods(rooms: Sequence[Room], units: int, gpus: int) -> int:
    """How many pods with so many units on each of so many GPUs fit in the rooms."""
    places = [room.pods_of(units) for room in rooms]
    if gpus == 1:
        return sum(places)
    # A pod uses a GPU once. So many pods fit if the GPUs, each used by at most all of them, have the places.
    low, high = 0, sum(places) // gpus
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(each, middle) for each in places) >= middle * gpus:
            low = middle
        else:
            high = middle - 1
    return low


def largest_request(rooms: Sequence[Room], gpus: int) -> int:
    """The most units on each of so many GPUs that one pod can get, 0 if none fits; largest rooms first."""
    return rooms[gpus - 1].units if len(rooms) >= gpus else 0


def _pods_by_gpu(book: Book) -> Counter[int]:
    """How many pods are on each GPU; one with unknown GPUs is on all of them."""
    assert book.node is not None  # noqa: S101 - callers have checked
    everywhere = [card.index for card in book.node.cards]
    found: Counter[int] = Counter()
    for reservation in book.reservations.values():
        if reservation.demand.empty:
            continue
        shares = reserved_shares(reservation, book.node)
        found.update(everywhere if shares is None else [index for index, _ in shares])
    return found
