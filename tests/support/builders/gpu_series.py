"""Series of a small cluster as our daemons serve them: healthy, or with an over-committed GPU.

What belongs here: numbers for pictures of dashboards. What does not: exact results of rules, which have their
own series (``tests.monitoring``).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Metric as Family

from gpushare.contract import RESOURCE_MEM
from gpushare.monitoring import catalogue as names
from gpushare.monitoring.families import MetricSeries, build_info, family
from gpushare.monitoring.rules import NAMESPACE_ALLOCATED, NAMESPACE_COMPUTE, NAMESPACE_GPUS, NAMESPACE_USED

_GIB = 2**30
_TOTAL = 15079 * 2**20
_UNITS = 14
_UNIT = _TOTAL / _UNITS
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
QUOTA = {"vision": 28, "serving": 28, "batch": 14}
"""Units of ResourceQuotas, by namespace."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A cluster: its nodes, each with the same number of GPUs, and its containers."""

    shares: Sequence[Share]
    nodes: Sequence[str] = ("gpu-1", "gpu-2", "gpu-3")
    cards: int = 2


def large(nodes: int, cards: int) -> Fleet:
    """A cluster with three containers on each GPU, each node in its own namespace."""
    names_of = [f"gpu-{number:03d}" for number in range(nodes)]
    shares = [
        Share(node, str(card), f"team-{node}", f"{node}-{card}-{each}", 4, 0.1 + 0.3 * each, 0.1 * each)
        for node in names_of
        for card in range(cards)
        for each in range(3)
    ]
    return Fleet(shares, names_of, cards)


def page(seconds: float, fleet: Fleet) -> str:
    """What a scrape at this time returns: all series of the cluster, in the text format."""
    registry = CollectorRegistry()
    registry.register(_Collected([*_of_extender(fleet, seconds), *_of_nodes(seconds, fleet)], seconds))
    return generate_latest(registry).decode() + "".join(_quotas(fleet.shares))


def _quotas(shares: Sequence[Share]) -> Iterator[str]:
    """As kube-state-metrics 2.x has them: one series for each resource and type of a ResourceQuota."""
    for namespace in sorted({each.namespace for each in shares}):
        used = sum(each.units for each in shares if each.namespace == namespace)
        for kind, units in (("hard", QUOTA.get(namespace, 100)), ("used", used)):
            yield (
                f'kube_resourcequota{{namespace="{namespace}",resourcequota="gpus",'
                f'resource="requests.{RESOURCE_MEM}",type="{kind}"}} {units}\n'
            )


_TEAMS = {"serving": (2.4, 1.9, 0.9), "vision": (1.2, 0.5, 0.5), "batch": (1.5, 1.4, 0.0)}
"""Namespace → GPUs allocated, GPUs of SM utilization by day, and part of both that stays at night."""
_STEP_S = 300


def history_of(now: float, days: int) -> str:
    """What the rules have recorded of three namespaces, in OpenMetrics' text format, until an hour ago."""
    start, end = int(now - days * 86400), int(now - 3600)
    return "".join(
        f"# TYPE {rule} gauge\n"
        + "".join(
            f'{rule}{{namespace="{team}"}} {value(team, at):.3f} {at}\n'
            for team in sorted(_TEAMS)
            for at in range(start, end, _STEP_S)
        )
        for rule, value in (
            (NAMESPACE_GPUS, _gpus),
            (NAMESPACE_COMPUTE, _busy),
            (NAMESPACE_ALLOCATED, lambda team, at: _gpus(team, at) * _TOTAL),
            (NAMESPACE_USED, lambda team, at: (_gpus(team, at) + _busy(team, at)) / 2 * _TOTAL),
        )
    )


def _day(team: str, at: int) -> float:
    """1 at noon of a working day, and the part that stays at night and on weekends."""
    night = _TEAMS[team][2]
    works = (at // 86400 + 4) % 7 < 5
    return night + (1 - night) * works * max(0.0, math.sin(2 * math.pi * (at % 86400 / 86400 - 0.25)))


def _gpus(team: str, at: int) -> float:
    return _TEAMS[team][0] * _day(team, at)


def _busy(team: str, at: int) -> float:
    return _TEAMS[team][1] * _day(team, at)


class _Collected:
    def __init__(self, series: Sequence[MetricSeries], seconds: float) -> None:
        self._series, self._seconds = series, seconds

    def collect(self) -> Iterator[Family]:
        yield from map(family, self._series)
        yield _histogram(names.EXTENDER_LOOP_DELAY, {}, 100 * self._seconds)
        latency = names.EXTENDER_LATENCY
        found = Family(latency.name, latency.help, latency.kind)
        for verb in _VERBS:
            found.samples += _histogram(latency, {"verb": verb}, 2 * self._seconds).samples
        yield found


_VERBS = ("filter", "prioritize", "bind")
_PARTS = {"0.001": 0.2, "0.005": 0.8, "0.01": 0.97, "0.05": 1, "+Inf": 1}
"""Bound of a bucket → part of the samples up to it."""


def _histogram(metric: names.Metric, labels: Mapping[str, str], count: float) -> Family:
    found = Family(metric.name, metric.help, metric.kind)
    for bound, part in _PARTS.items():
        found.add_sample(f"{metric}_bucket", {**labels, "le": bound}, part * count)
    return found


def _free(fleet: Fleet) -> dict[tuple[str, str], float]:
    free = {(node, str(card)): float(_UNITS) for node in fleet.nodes for card in range(fleet.cards)}
    for each in fleet.shares:
        free[each.node, each.card] -= each.units
    return free


def _of_extender(fleet: Fleet, seconds: float) -> Iterator[MetricSeries]:
    """One node agent stands for all."""
    free, shares = _free(fleet), fleet.shares
    over = {node for (node, _), units in free.items() if units < 0}
    counts = {"bound": len(shares), "unconfirmed": 0, "unplaced": 0}
    yield build_info()
    yield MetricSeries(names.EXTENDER_LEADS, [((), 1)])
    yield MetricSeries(names.EXTENDER_BINDS, [(("bound",), 2 * seconds), (("conflict",), 0.05 * seconds)])
    yield MetricSeries(
        names.EXTENDER_REQUESTS,
        [
            ((verb, result), part * seconds)
            for verb in _VERBS
            for result, part in (("ok", 2), ("error", 0.05))
        ],
    )
    yield MetricSeries(names.EXTENDER_UNCLEAR, [((), 0)])
    yield MetricSeries(names.EXTENDER_SYNCED, [((resource,), 1) for resource in ("nodes", "pods")])
    yield MetricSeries(names.EXTENDER_EVENTS_DROPPED, [((), 0)])
    yield MetricSeries(names.CARD_UNITS, [(key, _UNITS) for key in free])
    yield MetricSeries(names.CARD_FREE_UNITS, list(free.items()))
    yield MetricSeries(names.CARDS_OVERCOMMITTED, [((), len(over))])
    yield MetricSeries(names.CARDS_UNSCHEDULABLE, [((node,), node in over) for node in fleet.nodes])
    yield MetricSeries(names.PENDING, [((), 2 * len(over))])
    yield MetricSeries(names.PENDING_MIN, [((), 16)] if over else [])
    yield MetricSeries(names.RESERVATIONS, [((state,), count) for state, count in counts.items()])
    yield MetricSeries(names.PLUGIN_NVML_UP, [((), 1)])


def _uuid(node: str, card: str) -> str:
    return f"GPU-{node}-{card}"


def _of_nodes(seconds: float, fleet: Fleet) -> Iterator[MetricSeries]:
    wave, shares = 1 + 0.1 * math.sin(seconds / 20), fleet.shares
    used = {(*key, _uuid(*key)): 0.0 for key in _free(fleet)}
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
    yield MetricSeries(names.CARD_XIDS, [((*key, "31"), 1) for key in list(used)[:1]])


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
    yield by_share(names.CONTAINER_REMOTE, lambda each: float(each.card == "1"))
    yield by_share(names.CONTAINER_UTILIZATION, lambda each: each.sm * wave)
