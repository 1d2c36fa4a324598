"""What filter and prioritize have worked out of a ledger's books, kept until the books change.

Schedulers ask about thousands of nodes for one pod after the other, and from one to the next a single book
changes. Tables by node are gone through several times faster than books, of which little is left in the
processor's caches by the next call. No decision is made here.
"""

from collections.abc import Mapping
from typing import Final

from gpushare.scheduling.book import Book

UNFIT: Final = -1
"""In place of a score: the pod has no room on that node."""
_DEMANDS: Final = 64
"""More different ones than the workloads of one cluster usually have."""

Scores = dict[str, int]
"""Node → score of one demand. Nodes that are not in it were not asked about, or depend on who asks."""


class ScoreCache:
    """Of one ledger. The next ledger takes over what still holds, and an older one begins anew."""

    __slots__ = ("_scores", "_widest")

    def __init__(self, widest: dict[str, int] | None = None, scores: dict[str, Scores] | None = None) -> None:
        self._widest = widest
        self._scores = scores or {}

    def widest(self, books: Mapping[str, Book]) -> Mapping[str, int]:
        """Node → the ``widest`` of its book; ``books`` are those of the ledger."""
        if self._widest is None:
            self._widest = {name: book.widest for name, book in books.items()}
        return self._widest

    def scores(self, demand: str) -> Scores:
        """The table of a demand, for the caller to fill. Those asked for longest ago are dropped."""
        table = self._scores.pop(demand, {})
        if len(self._scores) == _DEMANDS:
            del self._scores[next(iter(self._scores))]
        self._scores[demand] = table
        return table

    def handed_on(self, changed: Mapping[str, Book | None]) -> "ScoreCache":
        """The next ledger's, in which these books are others or, as None, are gone."""
        heir = ScoreCache(self._widest, self._scores)
        self._widest, self._scores = None, {}
        for name, book in changed.items():
            heir._forget(name)
            if book and heir._widest is not None:
                heir._widest[name] = book.widest
        return heir

    def _forget(self, name: str) -> None:
        for table in (self._widest or {}, *self._scores.values()):
            table.pop(name, None)
