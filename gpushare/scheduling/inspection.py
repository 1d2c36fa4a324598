"""The books as data for people: the original's inspect JSON, and why a pod fits nowhere."""

from collections.abc import Iterable
from typing import Any

from gpushare.contract import RESOURCE_MEM
from gpushare.model.demand import Demand
from gpushare.scheduling.book import Book, CardUsage, Reservation, shares_of
from gpushare.scheduling.filtering import filter_nodes
from gpushare.scheduling.fitting import PodRequest
from gpushare.scheduling.ledger import Ledger, sharing

_SHOWN_NODES = 3


def inspect(ledger: Ledger, name: str | None = None) -> dict[str, Any]:
    """All sharing nodes sorted by name, or one, in the shape of the original's ``/inspect``.

    One key is ours: ``unplaced`` lists pods whose card is not known; they count on every card.
    """
    if name is None:
        return {"nodes": [_node(book) for book in sharing(ledger.books.values())]}
    book = ledger.books.get(name)
    if book is None or book.node is None:
        return {"nodes": [], "error": f'node "{name}" not found'}
    return {"nodes": [_node(book)]}


def _node(book: Book) -> dict[str, Any]:
    placed, unplaced = _pods_by_card(book)
    devices = [
        {
            "id": room.card.index,
            "totalGPU": room.total.mem,
            "usedGPU": room.total.mem - room.free.mem,
            "pods": [*placed.get(room.card.index, []), *_whole_gpu_pods(room)],
        }
        for room in book.rooms
    ]
    node = {
        "name": book.name,
        "totalGPU": sum(room.total.mem for room in book.rooms),
        "usedGPU": sum(reservation.demand.mem for reservation in book.reservations.values())
        + sum(room.total.mem for room in book.rooms if room.card.whole_gpu_pods),
        "devs": devices,
    }
    return node | ({"unplaced": unplaced} if unplaced else {})


def _pods_by_card(book: Book) -> tuple[dict[int, list[dict[str, Any]]], list[dict[str, Any]]]:
    placed: dict[int, list[dict[str, Any]]] = {}
    unplaced = []
    for reservation in sorted(book.reservations.values(), key=lambda r: r.pod):
        shares = shares_of(reservation, book.node) if book.node else None
        if shares is None:
            unplaced.append(_pod(reservation, reservation.demand.mem))
        for index, share in shares or ():
            placed.setdefault(index, []).append(_pod(reservation, share.mem))
    return placed, unplaced


def _whole_gpu_pods(room: CardUsage) -> list[dict[str, Any]]:
    return [_named(pod, room.total.mem) for pod in room.card.whole_gpu_pods]


def _pod(reservation: Reservation, units: int) -> dict[str, Any]:
    return _named(reservation.pod, units)


def _named(pod: str, units: int) -> dict[str, Any]:
    """``pod`` is ``namespace/name``, or a name alone where the namespace is not known."""
    namespace, _, name = pod.rpartition("/")
    return {"name": name, "namespace": namespace, "usedGPU": units}


def explain(ledger: Ledger, pod_request: PodRequest) -> str | None:
    """Why no node has room for the pod, the least hopeless nodes first; None where one has room."""
    books = [book for book in ledger.books.values() if book.node is not None and book.node.cards]
    verdict = filter_nodes(ledger, pod_request, [book.name for book in books])
    if verdict.passed:
        return None
    reasons = verdict.failed | verdict.hopeless
    told = sorted(_least_full(books), key=lambda book: book.name in verdict.hopeless)
    found = [f"{book.name}: {reasons[book.name]}" for book in told[:_SHOWN_NODES]]
    return _summary(pod_request.demand, found, len(told) - len(found))


def _least_full(books: Iterable[Book]) -> list[Book]:
    return sorted(
        books,
        key=lambda book: (-max((room.free.mem for room in book.rooms if room.open), default=-1), book.name),
    )


def _summary(demand: Demand, found: list[str], more: int) -> str:
    if not found:
        return f"asked {demand.mem} of {RESOURCE_MEM}, and no node shares its cards"
    rest = f"; and {more} more nodes" if more else ""
    return "; ".join(found) + rest
