"""Values of a bind: request, decision and result. Nothing is reserved or sent here."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from gpushare.errors import FENCED, ApiError
from gpushare.model.annotations import Shares
from gpushare.model.demand import Demand
from gpushare.model.objects import Pod
from gpushare.scheduling.book import Book


@dataclass(frozen=True, slots=True)
class BindRequest:
    """The scheduler's request to bind a pod, by UID, to a node."""

    namespace: str
    name: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class BindResult:
    """The result; no error means bound. ``reason`` is the class of the failure for the metrics."""

    error: str = ""
    reason: str = "bound"


BOUND: Final = BindResult()


@dataclass(frozen=True, slots=True)
class Decision:
    """The node and the GPUs of a pod. ``text`` is the message of the event."""

    pod: Pod
    node: str
    demand: Demand
    shares: Shares
    text: str

    @property
    def what(self) -> str:
        """The operation, for error texts."""
        return f"binding pod {self.pod.full_name} to node {self.node}"


def decided(pod: Pod, book: Book, demand: Demand, shares: Shares) -> Decision:
    """The decision for these GPUs.

    ``book`` may contain the reservation or not; the text states the units that are left after it.
    """
    reserved = pod.uid in book.reservations
    usages = {usage.card.index: usage for usage in book.usages}
    parts = []
    for index, share in shares:
        usage = usages.get(index)
        free = usage.free.mem - (0 if reserved else share.mem) if usage else 0
        of = f" ({free} of {usage.total.mem} left)" if usage else ""
        parts.append(f"{share.mem} units on GPU {index}{of}")
    text = f"placed on node {book.name}: {', '.join(parts)}"
    return Decision(pod, book.name, demand, shares, text)


def units_of_lowest(book: Book, shares: Shares) -> int:
    """The units of the GPU with the lowest index, for the DEV annotation."""
    return next((usage.total.mem for usage in book.usages if usage.card.index == shares[0][0]), 0)


def bound_already(pod: Pod, node: str) -> BindResult:
    """The result for a pod that is bound already."""
    if pod.node == node:
        return BOUND
    return BindResult(f"pod {pod.full_name} is already bound to node {pod.node}", "elsewhere")


def reason_of(error: ApiError) -> str:
    """The class of a bind that the API server certainly rejected."""
    if error.unsent:
        return "fenced" if error.reason == FENCED else "unsent"
    return "not_found" if error.status == HTTPStatus.NOT_FOUND else f"api_{error.status}"
