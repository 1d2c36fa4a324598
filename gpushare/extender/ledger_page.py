"""The gauges of the ledger and of the pods, as text in the format of Prometheus.

With the client library, the GPUs of 5,000 nodes take most of a second, in which no pod could be placed.
"""

from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import Final, NamedTuple

from gpushare.extender.node_cache import NodeCache
from gpushare.model.demand import Demand
from gpushare.model.objects import Pod
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric
from gpushare.scheduling.book import Book, reserved_shares
from gpushare.scheduling.ledger import Ledger

_PODS_PER_STEP: Final = 500
"""A quarter of a millisecond."""


class _NodePart(NamedTuple):
    """The lines of one node, and its parts of the sums."""

    units: bytes
    free: bytes
    closed: bytes
    closed_pods: bytes
    overcommitted: int
    bound: int
    unconfirmed: int
    unplaced: int


class LedgerPage:
    """Renders the families from one reading of the ledger and of the pods."""

    def __init__(self, ledger: Callable[[], Ledger], pods: Callable[[], Iterable[Pod]]) -> None:
        self._ledger = ledger
        self._pods = pods
        self._parts = NodeCache(_part)

    def steps(self) -> Generator[None, None, bytes]:
        """The text of all families. Yields after each part, because a large cluster takes long."""
        parts = yield from self._parts.steps(self._ledger())
        overcommitted = sum(part.overcommitted for part in parts)
        yield
        states = {
            "bound": sum(part.bound for part in parts),
            "unconfirmed": sum(part.unconfirmed for part in parts),
            "unplaced": sum(part.unplaced for part in parts),
        }
        requested = yield from _requested(list(self._pods()))
        return b"".join(
            (
                *_family(catalogue.CARD_UNITS, *(part.units for part in parts)),
                *_family(catalogue.CARD_FREE_UNITS, *(part.free for part in parts)),
                *_family(catalogue.CARDS_UNSCHEDULABLE, *(part.closed for part in parts)),
                *_family(catalogue.CLOSED_NODE_PODS, *(part.closed_pods for part in parts)),
                *_family(catalogue.CARDS_OVERCOMMITTED, _line(catalogue.CARDS_OVERCOMMITTED, overcommitted)),
                *_family(
                    catalogue.RESERVATIONS,
                    *(_line(catalogue.RESERVATIONS, number, state) for state, number in states.items()),
                ),
                *_family(catalogue.PENDING, _line(catalogue.PENDING, len(requested))),
                *_family(
                    catalogue.PENDING_MIN,
                    *([_line(catalogue.PENDING_MIN, min(requested))] if requested else ()),
                ),
            )
        )


def _part(book: Book) -> _NodePart:
    bound, unconfirmed, unplaced = _states(book)
    name = book.name
    cards = [(str(usage.card.index), usage) for usage in book.usages]
    closed = book.node is not None and book.node.closed is not None
    with_units = sum(bool(reservation.demand.mem) for reservation in book.reservations.values())
    return _NodePart(
        b"".join(_line(catalogue.CARD_UNITS, usage.total.mem, name, index) for index, usage in cards),
        b"".join(
            _line(
                catalogue.CARD_FREE_UNITS, min(usage.free.mem, 0) if closed else usage.free.mem, name, index
            )
            for index, usage in cards
        ),
        _line(
            catalogue.CARDS_UNSCHEDULABLE, sum(closed or not usage.schedulable for usage in book.usages), name
        ),
        _line(catalogue.CLOSED_NODE_PODS, with_units, name) if closed else b"",
        len(book.overcommitted),
        bound,
        unconfirmed,
        unplaced,
    )


def _states(book: Book) -> tuple[int, int, int]:
    """Reservations of pods that are bound, of binds in progress or unclear, and without known GPUs."""
    unconfirmed = unplaced = 0
    for reservation in book.reservations.values():
        if not reservation.confirmed:
            unconfirmed += 1
        elif book.node is None or reserved_shares(reservation, book.node) is None:
            unplaced += 1
    return len(book.reservations) - unconfirmed - unplaced, unconfirmed, unplaced


def _requested(pods: list[Pod]) -> Generator[None, None, list[int]]:
    """The units per GPU that each pod requests that the scheduler has yet to place."""
    units: list[int] = []
    left = iter(pods)
    while some := list(islice(left, _PODS_PER_STEP)):
        units += [
            pod.demand.per_card.mem
            for pod in some
            if pod.is_considered and isinstance(pod.demand, Demand) and pod.demand.mem
        ]
        yield
    return units


def _family(metric: Metric, *lines: bytes) -> tuple[bytes, ...]:
    return f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n".encode(), *lines


def _line(metric: Metric, number: int, *values: str) -> bytes:
    """One series. Names of nodes contain no characters that the format escapes."""
    labels = ",".join(
        f'{label}="{value}"' for label, value in sorted(zip(metric.labels, values, strict=True))
    )
    name = f"{metric.name}{{{labels}}}" if labels else metric.name
    return f"{name} {number}.0\n".encode()
