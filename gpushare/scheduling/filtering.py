"""Filter and prioritize: which of the given nodes can take a pod, why others cannot, and the scores.

Nothing is reserved here. The usual case (one GPU, memory only, no nominated pods) takes one comparison per
node, because the scheduler sends thousands of nodes at a time.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from gpushare.contract import MAX_EXTENDER_SCORE
from gpushare.model.annotations import Shares
from gpushare.scheduling.book import Book
from gpushare.scheduling.fitting import NOT_FOUND, PodRequest, Rejection, insufficient, place, too_large
from gpushare.scheduling.placement import score
from gpushare.scheduling.score_cache import UNFIT, Scores

if TYPE_CHECKING:
    # Its persistent maps are absent from the command line, which filters books without a ledger.
    from gpushare.scheduling.ledger import Ledger

_SIMPLE_PER_STEP: Final = 500
_NODES_PER_STEP: Final = 50
"""Nodes between two yields. A node takes 20 µs if nothing is known of it, or 1 µs if the demand is simple."""
_NOMINEES_PER_STEP: Final = 20
"""Pods that are nominated on these nodes. Each takes 60 µs, for any demand."""
_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(slots=True)
class FilterOutcome:
    """``passed`` in the order of the request; ``failed`` and ``unresolvable`` map nodes to reasons."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    unresolvable: dict[str, str] = field(default_factory=dict)

    def reject(self, node: str, rejection: Rejection) -> None:
        """Add a rejected node."""
        (self.unresolvable if rejection.unresolvable else self.failed)[node] = rejection.text


def filter_steps(
    ledger: "Ledger", pod_request: PodRequest, names: Sequence[str], most: int = 0
) -> Generator[None, None, FilterOutcome]:
    """Evaluate the given nodes; at most ``most`` pass, those with the highest scores, or all if it is 0.

    Yields after some nodes, because demands that are not simple take long on thousands of nodes.
    """
    outcome = FilterOutcome()
    for some in slices(ledger, names, _SIMPLE_PER_STEP if _is_simple(pod_request) else _NODES_PER_STEP):
        _filter(outcome, ledger, pod_request, some)
        yield
    # Without units all nodes are equal, and the scheduler should choose among all of them.
    if pod_request.demand.empty or not 0 < most < len(outcome.passed):
        return outcome
    points = yield from _points_steps(ledger, pod_request, outcome.passed)
    return _shortlisted(outcome, points, most)


def slices(ledger: "Ledger", names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """The nodes of each step: at most ``size``, and fewer if pods are nominated there."""
    if not ledger.nominated:
        yield from (names[start : start + size] for start in range(0, len(names), size))
        return
    nominees = Counter(ledger.nominated.values())
    start = waiting = 0
    for end, name in enumerate(names, start=1):
        waiting += nominees.get(name, 0)
        if end - start == size or waiting >= _NOMINEES_PER_STEP or end == len(names):
            yield names[start:end]
            start, waiting = end, 0


def _is_simple(pod_request: PodRequest) -> bool:
    demand = pod_request.demand
    return demand.cards == 1 and not demand.core and demand.gpus is None


def filter_nodes(ledger: "Ledger", pod_request: PodRequest, names: Iterable[str]) -> FilterOutcome:
    """Evaluate the given nodes for the pod."""
    outcome = FilterOutcome()
    _filter(outcome, ledger, pod_request, names)
    return outcome


def _filter(outcome: FilterOutcome, ledger: "Ledger", pod_request: PodRequest, names: Iterable[str]) -> None:
    if pod_request.demand.empty:
        outcome.passed.extend(names)
        return
    mine = ledger.reservation(pod_request.uid)
    if mine is not None:
        _already_placed(outcome, mine[0], names)
        return
    demand = pod_request.demand
    simple = _is_simple(pod_request)
    # The same for thousands of nodes, so before the loop.
    units, full, exceeds = demand.mem, insufficient(demand), too_large(demand)
    fits_up_to = ledger.score_cache.fits_up_to(ledger.books) if simple else _NOTHING
    known = ledger.score_cache.scores(_key(pod_request))
    for name in names:
        fits = fits_up_to.get(name, -1)
        # Tables first: they fit into the caches of the processor, books do not.
        if units <= fits or (fits < 0 and known.get(name, UNFIT) > UNFIT):
            outcome.passed.append(name)
            continue
        book = ledger.books.get(name)
        if book is None:
            outcome.reject(name, NOT_FOUND)
        # No shortcut: the mode, the users or nominated pods decide.
        elif fits < 0:
            _evaluate(outcome, book, pod_request, known)
        # Unresolvable, so that kube-scheduler evicts no pod in vain.
        elif units > book.largest:
            outcome.reject(name, exceeds)
        else:
            outcome.failed[name] = full


def _evaluate(outcome: FilterOutcome, book: Book, pod_request: PodRequest, known: Scores) -> None:
    result = place(book, pod_request)
    _remember(known, book, pod_request, result)
    if isinstance(result, Rejection):
        outcome.reject(book.name, result)
    else:
        outcome.passed.append(book.name)


def _already_placed(outcome: FilterOutcome, node: str, names: Iterable[str]) -> None:
    """A pod with a bind in progress, or an unclear bind, can only go to that node."""
    for name in names:
        if name == node:
            outcome.passed.append(name)
        else:
            outcome.failed[name] = f"a bind of this pod to node {node} is not confirmed yet"


def _shortlisted(outcome: FilterOutcome, points: Iterable[int], most: int) -> FilterOutcome:
    """The outcome with the ``most`` nodes of those that passed with the highest scores.

    The other nodes are absent, not rejected: the scheduler treats them like nodes that its own
    percentageOfNodesToScore skips.
    """
    ranks: list[list[str]] = [[] for _ in range(MAX_EXTENDER_SCORE + 1)]
    for name, each in zip(outcome.passed, points, strict=True):
        ranks[each].append(name)
    return replace(outcome, passed=list(islice(chain.from_iterable(reversed(ranks)), most)))


def score_steps(
    ledger: "Ledger", pod_request: PodRequest, names: Sequence[str]
) -> Generator[None, None, dict[str, int]]:
    """The scores of the given nodes by the placement policy, from 0 to 10; 0 if the pod does not fit.

    GPUs of a known model that is no data-centre GPU score 0. Yields after some nodes that had no
    score before.
    """
    if pod_request.demand.empty:
        return dict.fromkeys(names, 0)
    points = yield from _points_steps(ledger, pod_request, names)
    # Rare: filter has just let these nodes pass.
    if UNFIT in points:
        points = [max(0, each) for each in points]
    return dict(zip(names, points, strict=True))


def _points_steps(
    ledger: "Ledger", pod_request: PodRequest, names: Sequence[str]
) -> Generator[None, None, list[int]]:
    """The scores in the order of the names, or UNFIT."""
    key = _key(pod_request)
    known = [*map(ledger.score_cache.scores(key).get, names)]
    if None not in known:
        return cast("list[int]", known)
    missing = [name for name, points in zip(names, known, strict=True) if points is None]
    found: dict[str, int] = {}
    for some in slices(ledger, missing, _NODES_PER_STEP):
        # Read again after each yield: the next ledger takes over the table of this one.
        table = ledger.score_cache.scores(key)
        found |= {name: _score(ledger.books.get(name), pod_request, table) for name in some}
        yield
    return [found[name] if points is None else points for name, points in zip(names, known, strict=True)]


def _key(pod_request: PodRequest) -> str:
    """Everything that a score depends on, as one string: its hash is cached, unlike the hash of a tuple."""
    demand = pod_request.demand
    users = sorted(map(str, demand.users))
    return f"{demand.mem}/{demand.core}/{demand.cards}/{users}/{pod_request.placement}/{demand.gpus!r}"


def _score(book: Book | None, pod_request: PodRequest, known: Scores) -> int:
    return _remember(known, book, pod_request, place(book, pod_request)) if book else UNFIT


def _remember(known: Scores, book: Book, pod_request: PodRequest, result: Shares | Rejection) -> int:
    """The score of a placement; cached unless nominated pods make it depend on the pod."""
    points = UNFIT if isinstance(result, Rejection) else _score_of(book, pod_request, result)
    if not book.nominees:
        known[book.name] = points
    return points


def _score_of(book: Book, pod_request: PodRequest, shares: Shares) -> int:
    """1 to 10 for a placement by the policy; 0 if a GPU is known to be no data-centre GPU."""
    usages = {usage.card.index: usage for usage in book.usages}
    chosen = [usages[index] for index, _ in shares]
    if not all(usage.card.is_listed for usage in chosen):
        return 0
    part = score(book, chosen, pod_request.demand, pod_request.placement)
    return 1 + round((MAX_EXTENDER_SCORE - 1) * part)
