"""The placement policies of the extender in a simulation, with its own filter, scores and placement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final, cast

from gpushare.model.cards import equal_cards
from gpushare.model.demand import Amount, ContainerDemand, ContainerKind, Demand
from gpushare.model.objects import Node
from gpushare.scheduling.book import Book, Reservation, with_reservation
from gpushare.scheduling.filtering import filter_nodes, score_steps
from gpushare.scheduling.fitting import PodRequest, Rejection, place
from gpushare.scheduling.placement import POLICIES
from gpushare.scheduling.placement.replay.engine import PlainEngine
from gpushare.scheduling.score_cache import ScoreCache
from gpushare.scheduling.steps import result_of
from gpushare.simulation.decider import DeciderFactory, PlacerFactory, first_best, scored
from gpushare.simulation.node_state import UNFIT, NodeState
from gpushare.simulation.replay import replaying
from gpushare.simulation.workload import Shape, Workload

if TYPE_CHECKING:
    from gpushare.scheduling.ledger import Ledger

REPLAY: Final = "replay"
_NAME: Final = "node"


@dataclass(slots=True)
class _OneNode:
    """A ledger with one node, as filter and prioritize read it; without persistent maps."""

    books: dict[str, Book]
    nominated: dict[str, str] = field(default_factory=dict)
    score_cache: ScoreCache = field(default_factory=ScoreCache)

    def reservation(self, _uid: str) -> None:
        return None


class Product:
    """A policy by its name. Results are kept by what is free on the node and by the request."""

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._points: dict[tuple[int, tuple[int, ...], int, int], float] = {}
        self._books: dict[tuple[int, tuple[int, ...]], Book] = {}

    def score(self, node: NodeState, shape: Shape) -> float:
        """The points of prioritize, or UNFIT if filter refuses the node; pods without GPUs tie everywhere."""
        if not shape.gpus:
            return 0
        key = node.spec.milli, node.free, shape.gpus, shape.milli
        found = self._points.get(key)
        if found is None:
            found = self._points[key] = self._scored(node, shape)
        return found

    def gpus(self, node: NodeState, shape: Shape) -> tuple[int, ...]:
        """The GPUs that bind chooses."""
        if not shape.gpus:
            return ()
        shares = place(self._book(node), self._request(shape))
        if isinstance(shares, Rejection):
            raise TypeError(f"filter passed a node that bind refuses: {shares.text}")
        return tuple(index for index, _ in shares)

    def node(self, scores: Sequence[float]) -> int | None:
        """The first node with the highest score."""
        return first_best(scores)

    def _scored(self, node: NodeState, shape: Shape) -> float:
        view = cast("Ledger", _OneNode({_NAME: self._book(node)}))
        request = self._request(shape)
        if not filter_nodes(view, request, [_NAME]).passed:
            return UNFIT
        return result_of(score_steps(view, request, [_NAME]))[_NAME]

    def _request(self, shape: Shape) -> PodRequest:
        container = ContainerDemand("main", ContainerKind.MAIN, shape.units)
        demand = Demand((container,), shape.units, 0, shape.gpus)
        return PodRequest("pod", demand, placement=self._policy)

    def _book(self, node: NodeState) -> Book:
        """The book of a node with so much free on each GPU."""
        key = node.spec.milli, node.free
        found = self._books.get(key)
        if found is None:
            found = self._books[key] = _book_of(*key)
        return found


def _book_of(gpu: int, free: tuple[int, ...]) -> Book:
    book = Book(_NAME, Node(_NAME, equal_cards(gpu * len(free), len(free)) if free else ()))
    for index, each in enumerate(free):
        if used := gpu - each:
            demand = Demand((ContainerDemand("main", ContainerKind.MAIN, used),), used, 0, 1)
            book = with_reservation(book, Reservation(str(index), "", demand, ((index, Amount(used)),)))
    return book


def product(policy: str) -> DeciderFactory:
    """Makes deciders of a policy."""

    def made(_workload: Workload, _rng: Random) -> Product:
        return Product(policy)

    return made


PRODUCTS: Final[Mapping[str, PlacerFactory]] = {
    **{name: scored(product(name)) for name in POLICIES},
    REPLAY: replaying(PlainEngine),
}
"""By name; ``replay`` with the engine in Python."""
