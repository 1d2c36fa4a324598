"""One node's part of an explanation: the reason of the extender, and a verdict on each GPU. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from gpushare.model.annotations import Shares
from gpushare.model.demand import Demand
from gpushare.overview.explain.obstacles import Obstacle
from gpushare.scheduling.advice.refusals import refusal
from gpushare.scheduling.allowed_gpus import allowed_gpus, excluded_by
from gpushare.scheduling.book import Book, CardUsage
from gpushare.scheduling.fitting import PodRequest, Rejection, place, unfit


@dataclass(frozen=True, slots=True)
class CardAnswer:
    """One GPU: free and total units, and whether the amount for one GPU fits, or why not."""

    index: int
    model: str
    free: int
    total: int
    fits: bool
    verdict: str


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """One node. ``reason`` is the extender's; ``obstacles`` are other causes that exclude the node."""

    name: str
    fits: bool
    reason: str
    obstacles: tuple[str, ...]
    cards: tuple[CardAnswer, ...]


def node_answer(
    book: Book, pod_request: PodRequest, cordoned: frozenset[int], obstacles: Iterable[Obstacle]
) -> NodeAnswer:
    """The answer for a node; ``cordoned`` are its cordoned GPUs."""
    excluded = tuple(each.text for each in obstacles)
    if pod_request.demand.empty:
        reason = "fits any node, because it requests no units"
        return NodeAnswer(book.name, fits=True, reason=reason, obstacles=excluded, cards=())
    result = place(book, pod_request)
    rejected = unfit(book, pod_request.demand)
    cards = tuple(_card_answer(usage, book, pod_request, cordoned, rejected) for usage in book.usages)
    fitting = not isinstance(result, Rejection)
    reason = _refusal(book, pod_request) if isinstance(result, Rejection) else f"fits on {gpus_of(result)}"
    return NodeAnswer(book.name, fitting, reason, excluded, cards)


def _refusal(book: Book, pod_request: PodRequest) -> str:
    """The text of the extender's events; for a node without shared GPUs, that text is the Aliyun pair's."""
    if book.node and (book.node.closed or not book.node.cards):
        return f"it shares no GPUs{f': {book.node.closed}' if book.node.closed else ''}"
    return refusal(book, pod_request)


def gpus_of(shares: Shares) -> str:
    """Such as ``GPU 0 and GPU 1``."""
    return " and ".join(f"GPU {index}" for index, _ in shares)


def _card_answer(
    usage: CardUsage,
    book: Book,
    pod_request: PodRequest,
    cordoned: frozenset[int],
    rejected: Rejection | None,
) -> CardAnswer:
    share, users = pod_request.demand.per_card, pod_request.demand.users
    allowed = any(each.card.index == usage.card.index for each in allowed_gpus(book, pod_request.demand))
    fitting = allowed and usage.fits(share, users) and rejected is None
    excluded = "" if allowed else excluded_by(pod_request.demand, usage)
    verdict = "fits" if fitting else excluded or _verdict(usage, book, pod_request, cordoned)
    return CardAnswer(usage.card.index, usage.card.model, usage.free.mem, usage.total.mem, fitting, verdict)


def _verdict(usage: CardUsage, book: Book, pod_request: PodRequest, cordoned: frozenset[int]) -> str:
    index, card, reason = usage.card.index, usage.card, usage.reason
    if index in cordoned:
        return "cordoned"
    if reason:
        return f"unschedulable {reason}"
    if not card.healthy or index in book.unhealthy:
        return "unhealthy"
    if usage.free.mem < 0 or usage.free.core < 0:
        return "over-committed"
    return _shortage(usage, pod_request.demand) or "excluded by the node"


def _shortage(usage: CardUsage, demand: Demand) -> str:
    """What a schedulable GPU lacks."""
    share = demand.per_card
    if usage.total.mem < share.mem:
        return f"too small, asked {share.mem}"
    if usage.free.mem < share.mem:
        return f"asked {share.mem}"
    if usage.free.core < share.core:
        return f"asked {share.core} % of compute, {usage.free.core} % free"
    return "" if usage.accepts(demand.users) else "serves another user"
