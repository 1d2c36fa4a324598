"""Why a node takes no pod now, with amounts and GPUs: for events, binds, ``explain`` and the node agent.

What does not belong here: decisions, and the texts of filter (``fitting``), which have no amounts of a node.
"""

from collections.abc import Sequence

from gpushare.contract import REASON_NOT_SHARED
from gpushare.model.demand import Demand, Users
from gpushare.scheduling.allowed_gpus import allowed_gpus, choice_problem, largest_allowed
from gpushare.scheduling.book import Book, CardUsage
from gpushare.scheduling.fitting import PodRequest, Rejection, competing_nominees, insufficient, unfit


def refusal(book: Book, pod_request: PodRequest) -> str:
    """The reason why the node cannot take the pod. Call it for a pod that ``place`` has rejected."""
    rejection = unfit(book, pod_request.demand)
    return _of_node(book, pod_request.demand, rejection) if rejection else _full(book, pod_request)


def _of_node(book: Book, demand: Demand, rejection: Rejection) -> str:
    """The reason why the node could not take the demand even if it had no pods."""
    node = book.node
    if node is None:
        return f'node "{book.name}" not found'
    if node.closed or not node.cards:
        reason = REASON_NOT_SHARED.format(node=book.name)
        return f"{reason}: {node.closed}" if node.closed else reason
    if choice_problem(book, demand):
        return f"{rejection.text}{_gpus_there(book)}"
    largest = largest_allowed(book, demand)
    if demand.per_card.mem > largest:
        return f"{insufficient(demand)}, the largest GPU has {largest}"
    if demand.cards > len(book.usages):
        return f"{insufficient(demand)}, the node has {len(book.usages)}"
    return rejection.text


def _gpus_there(book: Book) -> str:
    """What the annotations of a pod could name."""
    gpus = "; ".join(
        f"GPU {usage.card.index} is {usage.card.model or 'of an unknown model'} {usage.card.uuid}".rstrip()
        for usage in book.usages
    )
    return f" ({gpus})"


def _full(book: Book, pod_request: PodRequest) -> str:
    demand = pod_request.demand
    allowed = allowed_gpus(book, demand)
    fitting = [usage for usage in allowed if usage.fits(demand.per_card, demand.users)]
    reserved = _reserved(book, pod_request) if len(fitting) >= demand.cards else ""
    core = f"; % of compute free: {_core_free(book)}" if demand.core else ""
    others = f"{_other_users(book, demand)}{_excluded(book, allowed)}"
    return f"{insufficient(demand)}, {summary(book.usages)}{core}{others}{reserved}"


def _excluded(book: Book, allowed: Sequence[CardUsage]) -> str:
    """The GPUs that the annotations of the pod exclude, as text."""
    indices = {usage.card.index for usage in allowed}
    others = [str(usage.card.index) for usage in book.usages if usage.card.index not in indices]
    return f"; the annotations exclude GPU {','.join(others)}" if others else ""


def _reserved(book: Book, pod_request: PodRequest) -> str:
    """The nominated pods that the free units are reserved for."""
    first, *others = [nominee.pod for nominee in competing_nominees(book, pod_request)]
    pods = f"{first} and others, which are" if others else f"{first}, which is"
    return f"; reserved for {pods} nominated to the node"


def summary(usages: tuple[CardUsage, ...]) -> str:
    """The schedulable GPU with the most free units, and the unschedulable GPUs, as text."""
    unschedulable = _unschedulable(usages)
    best = max(
        (usage for usage in usages if usage.schedulable), key=lambda usage: usage.free.mem, default=None
    )
    if best is None:
        return f"no GPU is usable{unschedulable}"
    return f"at most {best.free.mem} of {best.total.mem} free on GPU {best.card.index}{unschedulable}"


def _unschedulable(usages: tuple[CardUsage, ...]) -> str:
    """The unschedulable GPUs, with the reasons of the healthy ones."""
    by_reason: dict[str, list[str]] = {}
    for usage in usages:
        if not usage.schedulable:
            by_reason.setdefault(usage.reason, []).append(str(usage.card.index))
    texts = (f"GPU {','.join(cards)} {reason}".rstrip() for reason, cards in by_reason.items())
    return f" (unschedulable: {'; '.join(texts)})" if by_reason else ""


def _core_free(book: Book) -> str:
    return ", ".join(
        f"{usage.free.core} on GPU {usage.card.index}" for usage in book.usages if usage.schedulable
    )


def _other_users(book: Book, demand: Demand) -> str:
    """The schedulable GPUs with pods of other users, as text."""
    others = [usage for usage in book.usages if usage.schedulable and not usage.accepts(demand.users)]
    texts = ", ".join(f"GPU {usage.card.index} serves {_spelled_out(usage.users)}" for usage in others)
    return f"; the pod runs as user {_spelled_out(demand.users)}, {texts}" if texts else ""


def _spelled_out(users: Users) -> str:
    return " and ".join(sorted("an unknown one" if user is None else str(user) for user in users))
