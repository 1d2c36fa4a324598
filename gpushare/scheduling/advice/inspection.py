"""The ledger as data for users: the inspect document, and why a pod fits on no node."""

from collections.abc import Generator
from heapq import nsmallest
from typing import Any, Final

from gpushare.contract import RESOURCE_MEM
from gpushare.model.demand import Demand
from gpushare.scheduling.advice.refusals import refusal
from gpushare.scheduling.book import Book, reserved_shares
from gpushare.scheduling.filtering import FilterOutcome, filter_nodes, slices
from gpushare.scheduling.fitting import PodRequest, fits
from gpushare.scheduling.ledger import Ledger, sharing

_SHOWN_NODES: Final = 3
_NODES_PER_STEP: Final = 50
"""A millisecond."""


def inspect(ledger: Ledger, name: str | None = None) -> dict[str, Any]:
    """All nodes with shared GPUs sorted by name, or one node, in the format of the Aliyun extender.

    Two keys are additional: ``unplaced`` lists pods with unknown GPUs, which count against every GPU, and
    ``closed`` is why the node takes no pods.
    """
    if name is None:
        return {"nodes": [inspect_node(book) for book in sharing(ledger.books.values())]}
    book = ledger.books.get(name)
    if book is None or book.node is None:
        return {"nodes": [], "error": f'node "{name}" not found'}
    return {"nodes": [inspect_node(book)]}


def inspect_node(book: Book) -> dict[str, Any]:
    """The entry of one node."""
    placed, unplaced = _pods_by_card(book)
    devices = [
        {
            "id": usage.card.index,
            "totalGPU": usage.total.mem,
            "usedGPU": usage.total.mem - usage.free.mem,
            "pods": [
                *placed.get(usage.card.index, []),
                *(_pod(name, usage.total.mem) for name in usage.card.whole_gpu_pods),
            ],
        }
        for usage in book.usages
    ]
    node = {
        "name": book.name,
        "totalGPU": sum(usage.total.mem for usage in book.usages),
        "usedGPU": sum(reservation.demand.mem for reservation in book.reservations.values())
        + sum(usage.total.mem for usage in book.usages if usage.card.whole_gpu_pods),
        "devs": devices,
    }
    closed = book.node.closed if book.node else None
    return node | ({"unplaced": unplaced} if unplaced else {}) | ({"closed": closed} if closed else {})


def _pods_by_card(book: Book) -> tuple[dict[int, list[dict[str, Any]]], list[dict[str, Any]]]:
    placed: dict[int, list[dict[str, Any]]] = {}
    unplaced = []
    for reservation in sorted(book.reservations.values(), key=lambda r: r.pod):
        shares = reserved_shares(reservation, book.node) if book.node else None
        if shares is None:
            unplaced.append(_pod(reservation.pod, reservation.demand.mem))
        for index, share in shares or ():
            placed.setdefault(index, []).append(_pod(reservation.pod, share.mem))
    return placed, unplaced


def _pod(pod: str, units: int) -> dict[str, Any]:
    """``pod`` is ``namespace/name``, or the name only if the namespace is not known."""
    namespace, _, name = pod.rpartition("/")
    return {"name": name, "namespace": namespace, "usedGPU": units}


def explain_steps(
    ledger: Ledger, pod_request: PodRequest, *, rejected: bool = False
) -> Generator[None, None, str | None]:
    """Why the pod fits on no node, for the most promising nodes; None if it fits on one.

    ``rejected``: kube-scheduler has found no node, and filter has rejected some. Those that fit are excluded
    for reasons that only kube-scheduler knows, such as a node selector; so are cordoned nodes and those that
    are not ready. Yields after some nodes, because a large cluster takes long.
    """
    if pod_request.demand.has_suffix:
        return pod_request.demand.suffix_hint
    names = [book.name for book in ledger.books.values() if book.node is not None and book.node.cards]
    shown: list[_Rank] = []
    count = 0
    for some in slices(ledger, names, _NODES_PER_STEP):
        outcome = filter_nodes(ledger, pod_request, some)
        fitting = [name for name in outcome.passed if not _away(ledger.books[name])]
        if fitting and not rejected:
            return None
        others = [name for name in some if name not in fitting]
        count += len(others)
        shown = nsmallest(_SHOWN_NODES, [*shown, *(_rank(ledger.books[name], outcome) for name in others)])
        yield
    if names and not shown:
        return None
    texts = [f"{name}: {_reason(ledger.books[name], pod_request)}" for *_, name in shown]
    return _summary(pod_request.demand, texts, count - len(shown))


def _away(book: Book) -> str | None:
    return book.node.away if book.node else None


def _reason(book: Book, pod_request: PodRequest) -> str:
    if fits(book, pod_request):
        return f"it fits, but the node is {_away(book)}"
    return refusal(book, pod_request)


_Rank = tuple[bool, int, str]
"""Of a rejected node: whether evicting pods would not help, the negative of its free units, its name."""


def _rank(book: Book, outcome: FilterOutcome) -> _Rank:
    return book.name in outcome.unresolvable, -book.most_free, book.name


def _summary(demand: Demand, found: list[str], more: int) -> str:
    if not found:
        return f"asked {demand.mem} of {RESOURCE_MEM}, and no node shares its GPUs"
    rest = [f"and {more} more nodes"] if more else []
    return "; ".join([*found, *rest])
