"""Filter and prioritize: which of the given nodes can take a pod, why others cannot, and the scores.

Nothing is reserved here. The usual case (one GPU, memory only, no nominated pods) takes one comparison per
node, because the scheduler sends thousands of nodes at a time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from types import MappingProxyType
from typing import Final

from gpushare.contract import MAX_EXTENDER_SCORE
from gpushare.model.annotations import Shares
from gpushare.model.card_models import is_listed
from gpushare.scheduling.book import Book
from gpushare.scheduling.fitting import PodRequest, Rejection, insufficient, place, too_large
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.placement import suitability
from gpushare.scheduling.score_cache import UNFIT, Scores

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


def filter_nodes(ledger: Ledger, pod_request: PodRequest, names: Iterable[str]) -> FilterOutcome:
    """Evaluate the given nodes for the pod."""
    mine = ledger.reservation(pod_request.uid)
    if mine is not None:
        return _already_placed(mine[0], names)
    outcome = FilterOutcome()
    demand = pod_request.demand
    simple = demand.cards == 1 and not demand.core
    units, prefix = demand.mem, insufficient(demand)
    fits_up_to = ledger.score_cache.fits_up_to(ledger.books) if simple else _NOTHING
    known = ledger.score_cache.scores(_key(pod_request))
    for name in names:
        if units <= fits_up_to.get(name, UNFIT) or known.get(name, UNFIT) > UNFIT:
            outcome.passed.append(name)
            continue
        book = ledger.books.get(name)
        if book is None:
            outcome.reject(name, Rejection(f'node "{name}" not found'))
        elif not simple or book.fits_up_to < 0:
            _evaluate(outcome, book, pod_request, known)
        elif units > book.largest:
            outcome.unresolvable[name] = f"{prefix}, {too_large(book)}"
        else:
            outcome.failed[name] = f"{prefix}, {book.summary}"
    return outcome


def _evaluate(outcome: FilterOutcome, book: Book, pod_request: PodRequest, known: Scores) -> None:
    """Evaluate a node with the complete rules."""
    result = place(book, pod_request)
    _remember(known, book, pod_request, result)
    if isinstance(result, Rejection):
        outcome.reject(book.name, result)
    else:
        outcome.passed.append(book.name)


def _already_placed(node: str, names: Iterable[str]) -> FilterOutcome:
    """A pod with a bind in progress, or an unclear bind, can only go to that node."""
    outcome = FilterOutcome()
    for name in names:
        if name == node:
            outcome.passed.append(name)
        else:
            outcome.failed[name] = f"a bind of this pod to node {node} is not settled yet"
    return outcome


def shortlisted(ledger: Ledger, pod_request: PodRequest, outcome: FilterOutcome, most: int) -> FilterOutcome:
    """The outcome with at most ``most`` of the nodes that passed, those with the highest scores; 0 keeps all.

    The other nodes are absent, not rejected: the scheduler treats them like nodes that its own
    percentageOfNodesToScore skips.
    """
    if not 0 < most < len(outcome.passed):
        return outcome
    ranks: list[list[str]] = [[] for _ in range(MAX_EXTENDER_SCORE + 1)]
    for name, points in zip(outcome.passed, _points(ledger, pod_request, outcome.passed), strict=True):
        ranks[points].append(name)
    return replace(outcome, passed=list(islice(chain.from_iterable(reversed(ranks)), most)))


def scores(ledger: Ledger, pod_request: PodRequest, names: Sequence[str]) -> dict[str, int]:
    """The scores of the given nodes by the placement policy, from 0 to 10; 0 if the pod does not fit.

    GPUs with a known model that is not in the table of models score 0.
    """
    points = _points(ledger, pod_request, names)
    if UNFIT in points:
        points = [max(0, each) for each in points]
    return dict(zip(names, points, strict=True))


def _points(ledger: Ledger, pod_request: PodRequest, names: Sequence[str]) -> list[int]:
    """The scores in the order of the names, or UNFIT."""
    known = ledger.score_cache.scores(_key(pod_request))
    return [
        _score(ledger.books.get(name), pod_request, known) if points is None else points
        for name, points in zip(names, map(known.get, names), strict=True)
    ]


def _key(pod_request: PodRequest) -> str:
    """Everything that a score depends on, as one string: its hash is cached, unlike the hash of a tuple."""
    demand = pod_request.demand
    users = sorted(map(str, demand.users))
    return f"{demand.mem}/{demand.core}/{demand.cards}/{users}/{pod_request.placement}"


def _score(book: Book | None, pod_request: PodRequest, known: Scores) -> int:
    return _remember(known, book, pod_request, place(book, pod_request)) if book else UNFIT


def _remember(known: Scores, book: Book, pod_request: PodRequest, result: Shares | Rejection) -> int:
    """The score of a placement; cached unless nominated pods make it depend on the pod."""
    points = UNFIT if isinstance(result, Rejection) else _score_of(book, pod_request, result)
    if not book.nominees:
        known[book.name] = points
    return points


def _score_of(book: Book, pod_request: PodRequest, shares: Shares) -> int:
    """1 to 10 for a placement by the policy; 0 if a GPU's model is known and not in the table of models."""
    usages = {usage.card.index: usage for usage in book.usages}
    chosen = [usages[index] for index, _ in shares]
    if any(usage.card.model and not is_listed(usage.card.model) for usage in chosen):
        return 0
    part = suitability(book, chosen, pod_request.demand, pod_request.placement)
    return 1 + round((MAX_EXTENDER_SCORE - 1) * part)
