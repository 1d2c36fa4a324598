"""Series of a small cluster as our daemons serve them: healthy, or with an over-committed GPU.

What belongs here: numbers for pictures of dashboards. What does not: exact results of rules, which have their
own series (``tests.monitoring``).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Metric as Family

from gpushare.monitoring import catalogue as names
from gpushare.monitoring.families import MetricSeries, build_info, family

_GIB = 2**30
_TOTAL = 15079 * 2**20
_UNITS = 14
_UNIT = _TOTAL / _UNITS
_NODES = ("gpu-1", "gpu-2", "gpu-3")
_CARDS = 2
Cards = Mapping[tuple[str, str, str], float]
"""Node, index and UUID of each GPU → number."""


@dataclass(frozen=True, slots=True)
class Share:
    """The units of a container on one GPU; ``used`` and ``sm`` are fractions."""

    node: str
    card: str
    namespace: str
    pod: str
    units: int
    used: float
    sm: float


HEALTHY = (
    Share("gpu-1", "0", "vision", "notebook-ada", 4, 0.7, 0.2),
    Share("gpu-1", "0", "vision", "notebook-lin", 4, 0.1, 0.0),
    Share("gpu-1", "0", "vision", "notebook-max", 6, 0.9, 0.5),
    Share("gpu-1", "1", "serving", "llm-0", 14, 0.85, 0.7),
    Share("gpu-2", "0", "serving", "ranker-0", 6, 0.5, 0.3),
    Share("gpu-2", "0", "serving", "ranker-1", 6, 0.5, 0.35),
)
OVERCOMMITTED = (*HEALTHY, Share("gpu-2", "0", "batch", "trainer", 4, 0.99, 0.1))


def page(seconds: float, shares: Sequence[Share]) -> str:
    """What a scrape at this time returns: all series of the cluster, in the text format."""
    registry = CollectorRegistry()
    registry.register(_Collected([*_of_extender(shares), *_of_nodes(seconds, shares)], seconds))
    return generate_latest(registry).decode()


class _Collected:
    def __init__(self, series: Sequence[MetricSeries], seconds: float) -> None:
        self._series, self._seconds = series, seconds

    def collect(self) -> Iterator[Family]:
        yield from map(family, self._series)
        yield _loop_delay(self._seconds)


def _loop_delay(seconds: float) -> Family:
    metric = names.EXTENDER_LOOP_DELAY
    found = Family(metric.name, metric.help, metric.kind)
    for bound in ("0.001", "0.005", "0.01", "+Inf"):
        found.add_sample(f"{metric}_bucket", {"le": bound}, 100 * seconds)
    return found


def _free(shares: Sequence[Share]) -> dict[tuple[str, str], float]:
    free = {(node, str(card)): float(_UNITS) for node in _NODES for card in range(_CARDS)}
    for each in shares:
        free[each.node, each.card] -= each.units
    return free


def _of_extender(shares: Sequence[Share]) -> Iterator[MetricSeries]:
    """One node agent stands for all."""
    free = _free(shares)
    over = {node for (node, _), units in free.items() if units < 0}
    counts = {"bound": len(shares), "unconfirmed": 0, "unplaced": 0}
    yield build_info()
    yield MetricSeries(names.EXTENDER_LEADS, [((), 1)])
    yield MetricSeries(names.EXTENDER_BINDS, [(("bound",), 6), (("conflict",), 0)])
    yield MetricSeries(names.CARD_UNITS, [(key, _UNITS) for key in free])
    yield MetricSeries(names.CARD_FREE_UNITS, list(free.items()))
    yield MetricSeries(names.CARDS_OVERCOMMITTED, [((), len(over))])
    yield MetricSeries(names.CARDS_UNSCHEDULABLE, [((node,), node in over) for node in _NODES])
    yield MetricSeries(names.PENDING, [((), 2 * len(over))])
    yield MetricSeries(names.RESERVATIONS, [((state,), count) for state, count in counts.items()])
    yield MetricSeries(names.PLUGIN_NVML_UP, [((), 1)])


def _uuid(node: str, card: str) -> str:
    return f"GPU-{node}-{card}"


def _of_nodes(seconds: float, shares: Sequence[Share]) -> Iterator[MetricSeries]:
    wave = 1 + 0.1 * math.sin(seconds / 20)
    used = {(*key, _uuid(*key)): 0.0 for key in _free(())}
    busy = dict(used)
    for each in shares:
        key = (each.node, each.card, _uuid(each.node, each.card))
        used[key] += each.units * _UNIT * each.used
        busy[key] = min(1, busy[key] + each.sm * wave)
    yield from _of_cards(used, busy)
    yield from _of_containers(shares, wave)
    yield MetricSeries(
        names.SOURCE_UP, [((source,), 1) for source in ("nvml", "pods", "pod-resources", "node")]
    )


def _of_cards(used: Cards, busy: Cards) -> Iterator[MetricSeries]:
    def by_load(metric: names.Metric, idle: float, full: float) -> MetricSeries:
        return MetricSeries(metric, [(key, idle + (full - idle) * load) for key, load in busy.items()])

    yield MetricSeries(names.CARD_INFO, [((*key, "Tesla T4", "0000:00:1e.0"), 1) for key in used])
    yield MetricSeries(names.CARD_MEMORY, [(key, _TOTAL) for key in used])
    yield MetricSeries(names.CARD_USED, list(used.items()))
    yield by_load(names.CARD_UTILIZATION, 0, 1)
    yield by_load(names.CARD_MEMORY_UTILIZATION, 0, 0.5)
    yield by_load(names.CARD_TEMPERATURE, 35, 75)
    yield by_load(names.CARD_POWER, 12, 67)
    yield by_load(names.CARD_SM_CLOCK, 300e6, 1500e6)
    yield by_load(names.CARD_MEMORY_CLOCK, 405e6, 5001e6)
    yield by_load(names.CARD_PCIE_RECEIVED, 0, 2e8)
    yield by_load(names.CARD_PCIE_SENT, 0, 5e7)
    kinds = ("corrected", "uncorrected")
    yield MetricSeries(names.CARD_ECC, [((*key, kind), 0) for key in used for kind in kinds])


def _of_containers(shares: Sequence[Share], wave: float) -> Iterator[MetricSeries]:
    def by_share(metric: names.Metric, value: Callable[[Share], float]) -> MetricSeries:
        return MetricSeries(
            metric,
            [
                (
                    (each.node, each.namespace, each.pod, "main", each.card, _uuid(each.node, each.card)),
                    value(each),
                )
                for each in shares
            ],
        )

    yield by_share(names.CONTAINER_ALLOCATED, lambda each: each.units * _UNIT)
    yield by_share(names.CONTAINER_LIMIT, lambda each: each.units * _UNIT)
    yield by_share(names.CONTAINER_USED, lambda each: each.units * _UNIT * each.used)
    yield by_share(names.CONTAINER_PEAK, lambda each: each.units * _UNIT * min(1, each.used + 0.05))
    yield by_share(names.CONTAINER_REFUSALS, lambda _: 0)
    yield by_share(names.CONTAINER_CROWDED, lambda _: 0)
    yield by_share(names.CONTAINER_UTILIZATION, lambda each: each.sm * wave)
