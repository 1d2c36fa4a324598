"""Values computed from every book of the ledger, one book after the other."""

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

from gpushare.scheduling.book import Book
from gpushare.scheduling.ledger import Ledger, sharing

T = TypeVar("T")


class NodeCache(Generic[T]):
    """One value for each node with shared GPUs, computed again only if its book has changed."""

    def __init__(self, make: Callable[[Book], T]) -> None:
        self._make = make
        self._known: dict[str, tuple[Book, T]] = {}

    def steps(self, ledger: Ledger) -> Generator[None, None, list[T]]:
        """The values of this ledger, in the order of the nodes' names. Yields after each book."""
        current: dict[str, tuple[Book, T]] = {}
        for book in sharing(ledger.books.values()):
            known = self._known.get(book.name)
            current[book.name] = known if known and known[0] is book else (book, self._make(book))
            yield
        self._known = current
        return [value for _, value in current.values()]
