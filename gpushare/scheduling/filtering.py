"""Filter and prioritize: which of the named nodes can take a pod, why not, and how well.

Nothing is reserved here. The usual case (one card, memory only, nobody nominated) is decided by one
comparison per node, because the scheduler asks about thousands of nodes at a time.
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
from gpushare.scheduling.fitting import PodRequest, Rejection, asked, place, too_large
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.placement import suitability
from gpushare.scheduling.score_cache import UNFIT, Scores

_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(slots=True)
class FilterOutcome:
    """``passed`` keeps the order asked; ``failed`` and ``hopeless`` give the reason per node."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    hopeless: dict[str, str] = field(default_factory=dict)

    def refuse(self, node: str, refusal: Rejection) -> None:
        """Note a node as refused."""
        (self.hopeless if refusal.hopeless else self.failed)[node] = refusal.text


def filter_nodes(ledger: Ledger, pod_request: PodRequest, names: Iterable[str]) -> FilterOutcome:
    """Judge every named node for the pod."""
    mine = ledger.reservation(pod_request.uid)
    if mine is not None:
        return _already_placed(mine[0], names)
    verdict = FilterOutcome()
    demand = pod_request.demand
    simple = demand.cards == 1 and not demand.core
    units, prefix = demand.mem, asked(demand)
    widest = ledger.score_cache.widest(ledger.books) if simple else _NOTHING
    known = ledger.score_cache.scores(_key(pod_request))
    for name in names:
        if units <= widest.get(name, UNFIT) or known.get(name, UNFIT) > UNFIT:
            verdict.passed.append(name)
            continue
        book = ledger.books.get(name)
        if book is None:
            verdict.refuse(name, Rejection(f'node "{name}" not found'))
        elif not simple or book.widest < 0:
            _judge(verdict, book, pod_request, known)
        elif units > book.largest:
            verdict.hopeless[name] = f"{prefix}, {too_large(book)}"
        else:
            verdict.failed[name] = f"{prefix}, {book.most}"
    return verdict


def _judge(verdict: FilterOutcome, book: Book, pod_request: PodRequest, known: Scores) -> None:
    """A closer look."""
    result = place(book, pod_request)
    _remember(known, book, pod_request, result)
    if isinstance(result, Rejection):
        verdict.refuse(book.name, result)
    else:
        verdict.passed.append(book.name)


def _already_placed(node: str, names: Iterable[str]) -> FilterOutcome:
    """A pod whose bind is under way, or of unknown outcome, can only go where it was sent."""
    verdict = FilterOutcome()
    for name in names:
        if name == node:
            verdict.passed.append(name)
        else:
            verdict.failed[name] = f"a bind of this pod to node {node} is not settled yet"
    return verdict


def shortlisted(ledger: Ledger, pod_request: PodRequest, verdict: FilterOutcome, most: int) -> FilterOutcome:
    """The verdict with the best of the nodes that passed, ``most`` of them; 0 keeps all.

    The others are not refused: schedulers take a node that is named nowhere for one that was not looked
    at, as those that their own percentageOfNodesToScore leaves out.
    """
    if not 0 < most < len(verdict.passed):
        return verdict
    ranks: list[list[str]] = [[] for _ in range(MAX_EXTENDER_SCORE + 1)]
    for name, points in zip(verdict.passed, _points(ledger, pod_request, verdict.passed), strict=True):
        ranks[points].append(name)
    return replace(verdict, passed=list(islice(chain.from_iterable(reversed(ranks)), most)))


def score(ledger: Ledger, pod_request: PodRequest, name: str) -> int:
    """0 to 10: how well the pod sits there by the node's policy; 0 where it does not fit.

    Binpack prefers the node whose chosen card is left with the least free part, spread the most.
    Cards of a known model outside the table come last.
    """
    return scores(ledger, pod_request, (name,))[name]


def scores(ledger: Ledger, pod_request: PodRequest, names: Sequence[str]) -> dict[str, int]:
    """The score of every named node."""
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
    """What a score depends on, as one string: its hash is kept, where a tuple's is worked out each time."""
    demand = pod_request.demand
    users = sorted(map(str, demand.users))
    return f"{demand.mem}/{demand.core}/{demand.cards}/{users}/{pod_request.placement}"


def _score(book: Book | None, pod_request: PodRequest, known: Scores) -> int:
    return _remember(known, book, pod_request, place(book, pod_request)) if book else UNFIT


def _remember(known: Scores, book: Book, pod_request: PodRequest, result: Shares | Rejection) -> int:
    """The score of a placement, remembered unless nominated pods make it depend on who asks."""
    points = UNFIT if isinstance(result, Rejection) else _score_of(book, pod_request, result)
    if not book.nominees:
        known[book.name] = points
    return points


def _score_of(book: Book, pod_request: PodRequest, shares: Shares) -> int:
    """1 to 10 for a placement by the policy; 0 if a GPU's model is known and not in the table of models."""
    rooms = {room.card.index: room for room in book.rooms}
    chosen = [rooms[index] for index, _ in shares]
    if any(room.card.model and not is_listed(room.card.model) for room in chosen):
        return 0
    part = suitability(book, chosen, pod_request.demand, pod_request.placement)
    return 1 + round((MAX_EXTENDER_SCORE - 1) * part)
