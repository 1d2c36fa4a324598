"""The extender's metrics: counters, and gauges that are computed from its state at each scrape.

Names come from ``gpushare.monitoring.catalogue``.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from gpushare.model.demand import Demand
from gpushare.model.objects import Pod
from gpushare.monitoring import catalogue
from gpushare.monitoring.families import counter, gauge, histogram
from gpushare.scheduling.book import Book, reserved_shares
from gpushare.scheduling.ledger import Ledger, sharing

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class ExtenderMetrics:
    """All families, on a separate registry."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.requests = counter(catalogue.EXTENDER_REQUESTS, registry)
        self.latency = histogram(catalogue.EXTENDER_LATENCY, registry, _BUCKETS)
        self.binds = counter(catalogue.EXTENDER_BINDS, registry)
        self.forwarded = counter(catalogue.EXTENDER_FORWARDED, registry)
        self.unclear = gauge(catalogue.EXTENDER_UNCLEAR, registry)
        self.leads = gauge(catalogue.EXTENDER_LEADS, registry)
        self.reduced = gauge(catalogue.EXTENDER_REDUCED, registry)
        self.synced = gauge(catalogue.EXTENDER_SYNCED, registry)
        self.watch_restarts = counter(catalogue.EXTENDER_WATCH_RESTARTS, registry)
        self.events_dropped = counter(catalogue.EXTENDER_EVENTS_DROPPED, registry)

    def watch_ledger(self, read: Callable[[], Ledger]) -> None:
        """Add the gauges of the ledger."""
        self.registry.register(LedgerCollector(read))

    def watch_pods(self, read: Callable[[], Iterable[Pod]]) -> None:
        """Add the gauges of the pods."""
        self.registry.register(PodCollector(read))


class LedgerCollector(Collector):
    """Gauges computed from the ledger at each scrape."""

    def __init__(self, read: Callable[[], Ledger]) -> None:
        self._read = read

    def collect(self) -> Iterable[Family]:
        """All families, from one reading of the ledger."""
        books = list(sharing(self._read().books.values()))
        yield from _cards(books)
        yield _states(books)

    def describe(self) -> Iterable[Family]:
        """Nothing, so that registration needs no ledger."""
        return ()


class PodCollector(Collector):
    """Gauges computed from the pods at each scrape."""

    def __init__(self, read: Callable[[], Iterable[Pod]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Family]:
        """All families, from one reading of the pods."""
        requested = list(_requested(self._read()))
        pending, least = _family(catalogue.PENDING), _family(catalogue.PENDING_LEAST)
        pending.add_metric((), len(requested))
        if requested:
            least.add_metric((), min(requested))
        return pending, least

    def describe(self) -> Iterable[Family]:
        """Nothing, so that registration needs no pods."""
        return ()


def _requested(pods: Iterable[Pod]) -> Iterable[int]:
    """The units per GPU that each pod without a node requests."""
    for pod in pods:
        ended = pod.finished or pod.terminating
        if pod.node is None and not ended and isinstance(pod.demand, Demand) and pod.demand.mem:
            yield pod.demand.per_card.mem


def _cards(books: list[Book]) -> Iterable[Family]:
    units = _family(catalogue.CARD_UNITS)
    free = _family(catalogue.CARD_FREE_UNITS)
    closed = _family(catalogue.CARDS_CLOSED)
    overcommitted = _family(catalogue.CARDS_OVERCOMMITTED)
    for book in books:
        for usage in book.usages:
            labels = (book.name, str(usage.card.index))
            units.add_metric(labels, usage.total.mem)
            free.add_metric(labels, usage.free.mem)
        closed.add_metric((book.name,), sum(not usage.schedulable for usage in book.usages))
    overcommitted.add_metric((), sum(len(book.overcommitted) for book in books))
    return units, free, closed, overcommitted


def _states(books: list[Book]) -> Family:
    states = Tally({"bound": 0, "unsettled": 0, "unplaced": 0})
    for book in books:
        for reservation in book.reservations.values():
            if not reservation.settled:
                states["unsettled"] += 1
            elif book.node is None or reserved_shares(reservation, book.node) is None:
                states["unplaced"] += 1
            else:
                states["bound"] += 1
    family = _family(catalogue.RESERVATIONS)
    for state, number in states.items():
        family.add_metric((state,), number)
    return family


def _family(metric: catalogue.Metric) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
