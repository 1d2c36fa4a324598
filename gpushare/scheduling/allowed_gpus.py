"""Which GPUs of a node the annotations of a pod allow, whatever is free there.

The only place that decides it: filter, scores, binds, preemption, room, pod groups and ``explain`` ask here.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from gpushare.contract import (
    ANN_AVOID_MODELS,
    ANN_AVOID_UUIDS,
    ANN_OTHER_GPU,
    ANN_SAME_GPU,
    ANN_USE_MODELS,
    ANN_USE_UUIDS,
)
from gpushare.model.demand import Demand
from gpushare.model.gpu_choice import GpuChoice, OtherPods
from gpushare.scheduling.book import Book, CardUsage, Reservation, reserved_shares

_DEVICES = (ANN_USE_MODELS, ANN_AVOID_MODELS, ANN_USE_UUIDS, ANN_AVOID_UUIDS)


def allowed_gpus(book: Book, demand: Demand) -> Sequence[CardUsage]:
    """The GPUs of the node that the pod may use."""
    return book.usages if demand.gpus is None else _allowed(book, demand.gpus)


def _allowed(book: Book, choice: GpuChoice) -> list[CardUsage]:
    found = _devices(book, choice)
    if choice.same_as:
        same = _gpus_of(book, _companions(book, choice.same_as))
        found = [usage for usage in found if usage.card.index in same]
    if choice.other_than:
        others = [r for r in book.reservations.values() if _is_of(r, choice.other_than)]
        # Pods whose GPUs are not known may be on any GPU.
        taken = _gpus_of(book, others, unknown={usage.card.index for usage in book.usages})
        found = [usage for usage in found if usage.card.index not in taken]
    return found


def largest_allowed(book: Book, demand: Demand) -> int:
    """The units of the largest GPU that the pod may use, whoever is on it; -1 without any."""
    if demand.gpus is None:
        return book.largest
    return max((usage.total.mem for usage in _devices(book, demand.gpus)), default=-1)


def choice_problem(book: Book, demand: Demand) -> str | None:
    """Why the annotations of the pod exclude the node, whoever else leaves it; None if they do not."""
    choice = demand.gpus
    if choice is None:
        return None
    if len(_devices(book, choice)) < demand.cards:
        enough = f"{demand.cards} such GPUs" if demand.cards > 1 else "such GPU"
        return f"{choice.part(*_DEVICES)}: the node has no {enough}"
    if choice.same_as and len(_gpus_of(book, _companions(book, choice.same_as))) < demand.cards:
        enough = f"with {demand.cards} GPUs " if demand.cards > 1 else ""
        return f"{choice.part(ANN_SAME_GPU)}: no such pod {enough}is on the node"
    return None


def follows(demand: Demand, reservation: Reservation) -> bool:
    """Whether the pod needs that other pod to stay, as it uses the same GPU."""
    same_as = demand.gpus.same_as if demand.gpus else None
    return same_as is not None and _is_of(reservation, same_as)


def is_followed(book: Book, reservation: Reservation) -> bool:
    """Whether a pod of the node uses the same GPU because that other pod is there."""
    return any(each.demand.gpus and follows(each.demand, reservation) for each in book.reservations.values())


def excluded_by(demand: Demand, usage: CardUsage) -> str:
    """Which annotations exclude a GPU that ``allowed_gpus`` has not."""
    choice = demand.gpus
    if choice is None:
        return ""
    devices = not choice.allows(usage.card.model, usage.card.uuid)
    return f"excluded by {choice.part(*(_DEVICES if devices else (ANN_SAME_GPU, ANN_OTHER_GPU)))}"


def _devices(book: Book, choice: GpuChoice) -> list[CardUsage]:
    return [usage for usage in book.usages if choice.allows(usage.card.model, usage.card.uuid)]


def _companions(book: Book, pods: OtherPods) -> Iterator[Reservation]:
    """The pods whose GPU a pod is to use too; those that terminate are gone soon."""
    return (r for r in book.reservations.values() if not r.terminating and _is_of(r, pods))


def _is_of(reservation: Reservation, pods: OtherPods) -> bool:
    return bool(reservation.demand.mem) and (reservation.pod, reservation.labels) in pods


def _gpus_of(
    book: Book, reservations: Iterable[Reservation], unknown: Collection[int] = ()
) -> frozenset[int]:
    """The indices of the GPUs of these pods; ``unknown`` are those of a pod whose GPUs are not known."""
    node = book.node
    if node is None:
        return frozenset()
    found: set[int] = set()
    for reservation in reservations:
        shares = reserved_shares(reservation, node)
        found |= set(unknown) if shares is None else {index for index, _ in shares}
    return frozenset(found)
