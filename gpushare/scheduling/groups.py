"""Places of the members of a pod group on one ledger. Pure: nothing is reserved here."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace

from gpushare.model.demand import Demand, Malformed
from gpushare.model.objects import Pod
from gpushare.scheduling.events import Reserved
from gpushare.scheduling.filtering import filter_steps
from gpushare.scheduling.fitting import PodRequest, Rejection, place
from gpushare.scheduling.ledger import Ledger, apply


@dataclass(frozen=True, slots=True)
class MemberPlace:
    """A node for a member of a group."""

    pod: Pod
    demand: Demand
    node: str


def reservations_of(ledger: Ledger, places: Iterable[MemberPlace]) -> tuple[Reserved, ...] | None:
    """The reservations of all places together; None if one of them does not fit.

    A place names a node, and its GPUs may fit all members in one order only: that of the requests, or that of
    ``plan_steps``.
    """
    asked = list(places)
    found = _in_order(ledger, asked)
    if found is None:
        found = _in_order(ledger, sorted(asked, key=lambda at: _largest_first((at.pod, at.demand))))
    return found


def _in_order(ledger: Ledger, places: Iterable[MemberPlace]) -> tuple[Reserved, ...] | None:
    draft, found = _copy(ledger), []
    for each in places:
        reserved = _reserved(draft, each)
        if reserved is None:
            return None
        found.append(reserved)
        draft = apply(draft, reserved)
    return tuple(found)


def _reserved(ledger: Ledger, at: MemberPlace) -> Reserved | None:
    book = ledger.books.get(at.node)
    request = PodRequest(at.pod.uid, at.demand, at.pod.priority, at.pod.placement, binding=True)
    shares = place(book, request) if book else None
    if shares is None or isinstance(shares, Rejection):
        return None
    return Reserved(at.pod, at.demand, at.node, shares)


def with_places(ledger: Ledger, places: Iterable[MemberPlace]) -> Ledger | None:
    """The ledger as it is once all places are taken; None if they do not fit together."""
    reserved = reservations_of(ledger, places)
    return None if reserved is None else apply(_copy(ledger), *reserved)


def plan_steps(
    ledger: Ledger, members: Iterable[Pod], names: Sequence[str]
) -> Generator[None, None, dict[str, MemberPlace] | None]:
    """Places of all members on these nodes, by UID; None if a member has none.

    The largest member chooses first, because the others fit what it leaves more easily than it fits what they
    leave. Members that use the same GPU as another pod come last, because that may be a member.
    """
    draft, places = _copy(ledger), dict[str, MemberPlace]()
    for pod, demand in sorted(_with_demand(members), key=_largest_first):
        outcome = yield from filter_steps(
            draft, PodRequest(pod.uid, demand, pod.priority, pod.placement), names, 1
        )
        at = MemberPlace(pod, demand, outcome.passed[0]) if outcome.passed else None
        reserved = _reserved(draft, at) if at else None
        if at is None or reserved is None:
            return None
        places[pod.uid] = at
        draft = apply(draft, reserved)
    return places


def _with_demand(members: Iterable[Pod]) -> Iterable[tuple[Pod, Demand]]:
    for pod in members:
        if not isinstance(pod.demand, Malformed) and not pod.demand.empty:
            yield pod, pod.demand


def _largest_first(member: tuple[Pod, Demand]) -> tuple[bool, int, int, int, str]:
    pod, demand = member
    follows = demand.gpus is not None and demand.gpus.same_as is not None
    return follows, -demand.per_card.mem, -demand.cards, -demand.core, pod.uid


def _copy(ledger: Ledger) -> Ledger:
    """The same ledger with a cache of its own: the next ledger takes the cache of the last one."""
    # Filled first, so that the next group need not read all books again.
    ledger.score_cache.fits_up_to(ledger.books)
    return replace(ledger, score_cache=ledger.score_cache.copy())
