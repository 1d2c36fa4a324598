"""The cheapest evictions after which a waiting pod fits on one node. Pure.

kube-scheduler starts no preemption where the units of the node suffice and no GPU has them. The victims on a
node are chosen as for a preemption (``preemption``): lower priority only, and none whose end is not needed.
Among nodes, the victims with the lowest top priority, sum of priorities, number and units win. A plan that
would exceed a disruption budget is no plan: the API server would refuse a part, and the rest is in vain.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpushare.scheduling.book import Book, without
from gpushare.scheduling.fitting import PodRequest, fits, unfit
from gpushare.scheduling.preemption import BudgetsOf, cost_of, lower_than, victims_steps


@dataclass(frozen=True, slots=True)
class Room:
    """The node on which the pod will fit, and the pods to evict there, the least important first.

    Without victims the pod fits already, or once the pods that terminate are gone.
    """

    node: str
    victims: tuple[str, ...] = ()


class NoRoom(StrEnum):
    """Why no room can be made."""

    PRIORITY = "priority"
    """All pods of lower priority that may be evicted would not be enough."""
    BUDGETS = "pdb"
    """They would be enough, and disruption budgets forbid it now."""


def room_steps(
    books: Mapping[str, Book],
    pod_request: PodRequest,
    nodes: Iterable[str],
    may_evict: Callable[[str], bool],
    budgets_of: BudgetsOf,
) -> Generator[None, None, Room | NoRoom]:
    """The room for a pod on one of the nodes; ``may_evict`` decides about pods by UID. Yields often."""
    known = (book for name in nodes if (book := books.get(name)))
    possible = [book for book in known if not unfit(book, pod_request.demand)]
    coming = yield from _coming_steps(possible, pod_request)
    if coming:
        return coming
    lower = lower_than(pod_request.priority)
    best: tuple[tuple[int, int, int, int], Room] | None = None
    exceeded = False
    for book in possible:
        found = yield from victims_steps(
            book, pod_request, (), budgets_of, lambda r: lower(r) and may_evict(r.uid)
        )
        if found is None:
            continue
        exceeded |= found.violations > 0
        cost = cost_of(book, found.uids)
        if not found.violations and (best is None or cost < best[0]):
            best = cost, Room(book.name, found.uids[::-1])
    if best:
        return best[1]
    return NoRoom.BUDGETS if exceeded else NoRoom.PRIORITY


def is_needed(book: Book, pod_request: PodRequest, victims: frozenset[str]) -> bool:
    """Whether the evictions of a plan still help: the pod does not fit without them, and fits after them."""
    return not comes(book, pod_request) and comes(without(book, victims), pod_request)


def _coming_steps(books: Iterable[Book], pod_request: PodRequest) -> Generator[None, None, Room | None]:
    for book in books:
        if comes(book, pod_request):
            return Room(book.name)
        yield
    return None


def comes(book: Book, pod_request: PodRequest) -> bool:
    """Whether the pod fits on the node once the pods that terminate are gone."""
    terminating = frozenset(r.uid for r in book.reservations.values() if r.terminating)
    return fits(without(book, terminating), pod_request)
