"""Results of filter and prioritize per node, kept until the node's book changes.

The scheduler sends thousands of nodes for each pod, and from one pod to the next a single book changes.
Reading tables by node is several times faster than reading books, which do not fit into the processor's
caches. No decision is made here.
"""

from collections.abc import Mapping
from typing import Final

from gpushare.scheduling.book import Book

UNFIT: Final = -1
"""Stands for a score: the pod does not fit on the node."""
_DEMANDS: Final = 64
"""Number of demands that are kept; more than the workloads of one cluster usually differ in."""

Scores = dict[str, int]
"""Node → score of one demand. Nodes that were not in a request, or where nominated pods wait, are absent."""


class ScoreCache:
    """Belongs to one ledger. The next ledger takes over the valid entries; the older one starts empty."""

    __slots__ = ("_fits_up_to", "_scores")

    def __init__(
        self, fits_up_to: dict[str, int] | None = None, scores: dict[str, Scores] | None = None
    ) -> None:
        self._fits_up_to = fits_up_to
        self._scores = scores or {}

    def fits_up_to(self, books: Mapping[str, Book]) -> Mapping[str, int]:
        """Node → ``fits_up_to`` of its book; ``books`` are the ledger's."""
        if self._fits_up_to is None:
            self._fits_up_to = {name: book.fits_up_to for name, book in books.items()}
        return self._fits_up_to

    def scores(self, demand: str) -> Scores:
        """The table of a demand, for the caller to fill. The least recently used tables are dropped."""
        table = self._scores.pop(demand, {})
        if len(self._scores) == _DEMANDS:
            del self._scores[next(iter(self._scores))]
        self._scores[demand] = table
        return table

    def copy(self) -> "ScoreCache":
        """The same entries for a ledger that is not the next one."""
        fits_up_to = None if self._fits_up_to is None else dict(self._fits_up_to)
        return ScoreCache(fits_up_to, {demand: dict(table) for demand, table in self._scores.items()})

    def updated(self, changed: Mapping[str, Book | None]) -> "ScoreCache":
        """Moves the entries to the next ledger's cache, without those of the changed books; None: deleted."""
        cache = ScoreCache(self._fits_up_to, self._scores)
        self._fits_up_to, self._scores = None, {}
        for name, book in changed.items():
            cache._forget(name)
            if book and cache._fits_up_to is not None:
                cache._fits_up_to[name] = book.fits_up_to
        return cache

    def _forget(self, name: str) -> None:
        for table in (self._fits_up_to or {}, *self._scores.values()):
            table.pop(name, None)
