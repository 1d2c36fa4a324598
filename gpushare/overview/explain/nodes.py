"""One node's part of an explanation: the reason of the extender, and a verdict on each GPU. Pure."""

from dataclasses import dataclass
from typing import Final

from gpushare.model.annotations import Shares
from gpushare.model.demand import Demand
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.scheduling.advice.refusals import refusal
from gpushare.scheduling.book import Book, CardUsage
from gpushare.scheduling.fitting import PodRequest, Rejection, place, unfit

_NOWHERE: Final = ClusterNode()


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


def node_answer(book: Book, pod_request: PodRequest, pod: ClusterPod, node: ClusterNode | None) -> NodeAnswer:
    """The answer for a node; ``node`` is its API object."""
    node = node or _NOWHERE
    if pod_request.demand.empty:
        reason = "fits any node, because it requests no units"
        return NodeAnswer(
            book.name, fits=True, reason=reason, obstacles=tuple(obstacles(pod, node)), cards=()
        )
    result = place(book, pod_request)
    cordoned = node.cordoned_cards
    rejected = unfit(book, pod_request.demand)
    cards = tuple(_card_answer(usage, book, pod_request, cordoned, rejected) for usage in book.usages)
    fitting = not isinstance(result, Rejection)
    reason = refusal(book, pod_request) if isinstance(result, Rejection) else f"fits on {gpus_of(result)}"
    return NodeAnswer(book.name, fitting, reason, tuple(obstacles(pod, node)), cards)


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
    fitting = usage.fits(share, users) and rejected is None
    verdict = "fits" if fitting else _verdict(usage, book, pod_request, cordoned)
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


def obstacles(pod: ClusterPod, node: ClusterNode) -> list[str]:
    """Why the scheduler would not consider the node for the pod, apart from resources: the usual causes."""
    labels = node.labels
    found = ["the node is cordoned"] if node.spec.unschedulable else []
    found += [
        f"the node has no label {key}={value}, which the pod selects"
        for key, value in (pod.spec.node_selector or {}).items()
        if labels.get(key) != value
    ]
    if pod.spec.affinity and not pod.spec.affinity.admits(node.name, labels):
        found.append("the node does not meet the node affinity of the pod")
    tolerations = pod.spec.tolerations or []
    found += [
        f"the pod does not tolerate the taint {taint}"
        for taint in node.spec.taints or ()
        if taint.effect in ("NoSchedule", "NoExecute")
        # The API server adds this taint to a cordoned node.
        and not (node.spec.unschedulable and taint.key == "node.kubernetes.io/unschedulable")
        and not any(each.tolerates(taint) for each in tolerations)
    ]
    return found
