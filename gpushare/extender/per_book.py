"""Values computed from every book of the ledger without stopping the event loop."""

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from gpushare.scheduling.book import Book
from gpushare.scheduling.ledger import Ledger, sharing

T = TypeVar("T")

_SLICE: Final = 25
"""Books between two turns of the loop: two milliseconds at most."""


class PerBook(Generic[T]):
    """One value for each node with shared GPUs, computed again only if its book has changed.

    ``turn`` is awaited between slices of the work.
    """

    def __init__(self, make: Callable[[Book], T], turn: Callable[[], Awaitable[None]]) -> None:
        self._make = make
        self._turn = turn
        self._known: dict[str, tuple[Book, T]] = {}

    async def values(self, ledger: Ledger) -> list[T]:
        """The values of this ledger, in the order of the nodes' names."""
        current: dict[str, tuple[Book, T]] = {}
        for count, book in enumerate(sharing(ledger.books.values()), start=1):
            known = self._known.get(book.name)
            current[book.name] = known if known and known[0] is book else (book, self._make(book))
            if count % _SLICE == 0:
                await self._turn()
        self._known = current
        return [value for _, value in current.values()]
