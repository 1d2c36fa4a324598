"""The ledger: the books of all nodes. ``new = apply(old, *events)``.

Invariants: a reservation is keyed by pod UID and ends when the pod is deleted or finished, not when it is
terminating; amounts come from the pod's limits; a later annotation neither moves nor frees a reservation; a
pod is on one node at a time. CPU and memory count only of pods whose ``LoadObserved`` was applied.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from immutables import Map

from gpushare.model.demand import Demand
from gpushare.model.objects import Node, Pod
from gpushare.model.resources import NO_RESOURCES, Load, Resources
from gpushare.scheduling.book import Book, Reservation, nominee_of
from gpushare.scheduling.events import (
    Confirmed,
    LedgerEvent,
    LoadObserved,
    NodeDeleted,
    NodeObserved,
    PodDeleted,
    PodObserved,
    Released,
    Reserved,
    UnhealthyObserved,
)
from gpushare.scheduling.score_cache import ScoreCache


@dataclass(frozen=True, slots=True)
class Ledger:
    """All books. ``home`` and ``nominated`` map pod UIDs to the node of the reservation or the nomination.

    ``loads`` has the CPU and memory of pods by UID, and ``loaded`` the sums by node. ``changed`` are the
    nodes that the last events have changed.
    """

    books: Map[str, Book] = field(default_factory=Map)
    home: Map[str, str] = field(default_factory=Map)
    nominated: Map[str, str] = field(default_factory=Map)
    loads: Map[str, Load] = field(default_factory=Map)
    loaded: Map[str, Resources] = field(default_factory=Map)
    score_cache: ScoreCache = field(default_factory=ScoreCache, compare=False, repr=False)
    changed: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    def reservation(self, uid: str) -> tuple[str, Reservation] | None:
        """The node and the reservation of a pod; None if it has none."""
        node = self.home.get(uid)
        return None if node is None else (node, self.books[node].reservations[uid])

    def free(self, name: str) -> Resources | None:
        """The free CPU and memory of a node, negative if over-committed; None if the node is unknown."""
        book = self.books.get(name)
        offers = book.node.allocatable if book and book.node else None
        return None if offers is None else offers.minus(self.loaded.get(name, NO_RESOURCES))


EMPTY_LEDGER = Ledger()


def apply(ledger: Ledger, *events: LedgerEvent) -> Ledger:
    """The ledger after the events, in order. Each changed book is recomputed once."""
    draft = _LedgerDraft(ledger)
    for event in events:
        draft.apply(event)
    return draft.finish()


class _BookDraft:
    """A book that is being changed. ``rescore`` is True once something changed that scores depend on."""

    __slots__ = ("name", "node", "nominees", "rescore", "reservations", "unhealthy")

    def __init__(self, name: str, book: Book | None) -> None:
        self.name = name
        self.rescore = False
        self.node = book.node if book else None
        self.unhealthy = book.unhealthy if book else frozenset()
        self.reservations = dict(book.reservations) if book else {}
        self.nominees = dict(book.nominees) if book else {}

    @property
    def is_empty(self) -> bool:
        return not (self.node or self.unhealthy or self.reservations or self.nominees)

    def book(self) -> Book:
        return Book(self.name, self.node, self.unhealthy, self.reservations, self.nominees)


class _LedgerDraft:
    """A ledger under change: pages copied on first touch, written back by ``finish``."""

    def __init__(self, ledger: Ledger) -> None:
        self._books = ledger.books
        self._score_cache = ledger.score_cache
        self._home = ledger.home.mutate()
        self._nominated = ledger.nominated.mutate()
        self._loads = ledger.loads.mutate()
        self._loaded = ledger.loaded.mutate()
        self._drafts: dict[str, _BookDraft] = {}
        self._changed: set[str] = set()

    def finish(self) -> Ledger:
        books = self._finished_books()
        return Ledger(
            books,
            self._home.finish(),
            self._nominated.finish(),
            self._loads.finish(),
            self._loaded.finish(),
            self._score_cache.updated(
                {n: books.get(n) for n, draft in self._drafts.items() if draft.rescore}
            ),
            frozenset(self._changed.union(self._drafts)),
        )

    def _finished_books(self) -> Map[str, Book]:
        """The same object if no book has changed."""
        if not self._drafts:
            return self._books
        books = self._books.mutate()
        for name, draft in self._drafts.items():
            if not draft.is_empty:
                books[name] = draft.book()
            # A node that came and went within these events was never there.
            elif name in self._books:
                del books[name]
        return books.finish()

    def apply(self, event: LedgerEvent) -> None:
        match event:
            case PodObserved(pod):
                self._pod(pod)
            case LoadObserved(uid, load):
                # The API may show the bind later than this extender has decided it.
                self._carry(uid, load if load.node else load._replace(node=self._home.get(uid)))
            case PodDeleted(uid):
                self._drop(uid)
                self._unload(uid)
                self._unnominate(uid)
            case NodeObserved(node):
                self._node(node)
            case NodeDeleted(name):
                self._book_draft(name).node = None
            case UnhealthyObserved(name, indices):
                self._book_draft(name).unhealthy = indices
            case Reserved():
                self._reserve(event)
            case Confirmed(uid):
                self._confirm(uid)
            case Released(uid):
                self._release(uid)

    def _node(self, node: Node) -> None:
        """An update that changes nothing relevant, such as a heartbeat, leaves the book unchanged."""
        book = self._books.get(node.name)
        if node.name in self._drafts or book is None or book.node != node:
            self._book_draft(node.name).node = node

    def _book_draft(self, name: str, *, rescore: bool = True) -> _BookDraft:
        draft = self._drafts.get(name)
        if draft is None:
            draft = self._drafts[name] = _BookDraft(name, self._books.get(name))
        draft.rescore |= rescore
        return draft

    def _pod(self, pod: Pod) -> None:
        self._unnominate(pod.uid)
        demand = pod.demand if isinstance(pod.demand, Demand) else pod.demand.at_least
        if pod.finished:
            self._unload(pod.uid)
        if pod.finished or demand is None:
            self._drop(pod.uid)
        elif pod.node is not None:
            self._bound(pod, demand, pod.node)
        elif pod.nominated is not None and not pod.terminating and demand is pod.demand:
            self._nominate(pod, demand, pod.nominated)

    def _bound(self, pod: Pod, demand: Demand, node: str) -> None:
        """A bound pod keeps the GPUs that were known first, even if its annotations or labels change.

        Limits are immutable, so a changed demand comes from an edited label. An update that changes nothing
        relevant leaves the book unchanged.
        """
        home = self._home.get(pod.uid)
        known = self._reservation(node, pod.uid) if home == node else None
        reservation = Reservation(
            pod.uid,
            pod.full_name,
            known.demand if known else demand,
            # The first GPUs count: the owner of the pod can edit its annotations.
            known.claim if known and known.confirmed else pod.claim,
            terminating=pod.terminating,
            priority=pod.priority,
            mode=known.mode if known and known.confirmed else pod.mode,
            labels=pod.labels,
        )
        self._move(pod.uid, node)
        if reservation == known:
            return
        if home != node:
            self._drop(pod.uid)
        self._book_draft(node).reservations[pod.uid] = reservation
        self._home[pod.uid] = node

    def _reservation(self, node: str, uid: str) -> Reservation | None:
        """The current reservation, read without starting a draft."""
        draft = self._drafts.get(node) or self._books.get(node)
        return draft.reservations.get(uid) if draft else None

    def _reserve(self, event: Reserved) -> None:
        pod = event.pod
        # A pod is on one node at a time.
        self._drop(pod.uid)
        draft = self._book_draft(event.node)
        draft.reservations[pod.uid] = Reservation(
            pod.uid,
            pod.full_name,
            event.demand,
            event.shares,
            confirmed=False,
            priority=pod.priority,
            mode=draft.node.mode if draft.node else None,
            labels=pod.labels,
        )
        self._home[pod.uid] = event.node
        self._move(pod.uid, event.node)

    def _confirm(self, uid: str) -> None:
        node = self._home.get(uid)
        if node is not None:
            # Its units are counted already.
            reservations = self._book_draft(node, rescore=False).reservations
            reservations[uid] = replace(reservations[uid], confirmed=True)

    def _release(self, uid: str) -> None:
        """Release a reservation, unless the API has shown the pod bound."""
        node = self._home.get(uid)
        if node is not None and not self._book_draft(node).reservations[uid].confirmed:
            self._drop(uid)
            self._move(uid, None)

    def _move(self, uid: str, node: str | None) -> None:
        """The CPU and memory of a pod are on this node now, if they are known."""
        if known := self._loads.get(uid):
            self._carry(uid, Load(node, known.requested))

    def _carry(self, uid: str, load: Load) -> None:
        if self._loads.get(uid) == load:
            return
        self._unload(uid)
        self._loads[uid] = load
        if load.node is not None:
            self._set_loaded(load.node, self._loaded.get(load.node, NO_RESOURCES).plus(load.requested))

    def _unload(self, uid: str) -> None:
        load = self._loads.pop(uid, None)
        if load is not None and load.node is not None:
            self._set_loaded(load.node, self._loaded.get(load.node, NO_RESOURCES).minus(load.requested))

    def _set_loaded(self, node: str, taken: Resources) -> None:
        if taken == NO_RESOURCES:
            self._loaded.pop(node, None)
        else:
            self._loaded[node] = taken
        self._changed.add(node)

    def _drop(self, uid: str) -> None:
        node = self._home.pop(uid, None)
        if node is not None:
            del self._book_draft(node).reservations[uid]

    def _nominate(self, pod: Pod, demand: Demand, node: str) -> None:
        self._book_draft(node).nominees[pod.uid] = nominee_of(pod, demand)
        self._nominated[pod.uid] = node

    def _unnominate(self, uid: str) -> None:
        node = self._nominated.pop(uid, None)
        if node is not None:
            del self._book_draft(node).nominees[uid]


def overcommitted(ledger: Ledger) -> Iterator[tuple[str, int]]:
    """Every over-committed GPU: (node, index)."""
    for name, book in ledger.books.items():
        for usage in book.overcommitted:
            yield name, usage.card.index


def sharing(books: Iterable[Book]) -> Iterator[Book]:
    """The books of nodes with shared GPUs, sorted by name."""
    return (book for book in sorted(books, key=lambda b: b.name) if book.node is not None and book.node.cards)
