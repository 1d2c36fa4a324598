"""What ``top`` shows of the exporters' series: usage by GPU or container, or all of a metric. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from gpushare.errors import ConfigError
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.page import MetricSample
from gpushare.overview.usage import (
    CONTAINER,
    CONTAINER_METRICS,
    GPU,
    GPU_METRICS,
    POD_LABELS,
    JoinedRow,
    UsageFilter,
    joined,
    label_values,
)

_GPU_LABELS: Final = ("uuid", "UUID")

UsageOf = Callable[[Sequence[MetricSample]], "UsageTable"]


@dataclass(frozen=True, slots=True)
class UsageTable:
    """Sorted rows, with a number for each metric. ``metrics`` is None for the series of any one metric."""

    kind: str
    labels: tuple[str, ...]
    metrics: tuple[Metric, ...] | None
    rows: Sequence[JoinedRow]


def gpu_usage(metric: str | None, selected: UsageFilter) -> UsageOf:
    """Every GPU, or every series of a metric of GPUs. Raises ConfigError for another metric."""
    if metric:
        return partial(series, metric=metric_of_gpus(metric), selected=selected)
    return partial(gpus, selected=selected)


def pod_usage(metric: str | None, selected: UsageFilter) -> UsageOf:
    """Every container with a GPU, or every series of a metric of pods. Raises ConfigError as above."""
    if metric:
        return partial(series, metric=metric_of_pods(metric), selected=selected)
    return partial(containers, selected=selected)


def containers(samples: Sequence[MetricSample], selected: UsageFilter) -> UsageTable:
    """Every container with a GPU."""
    rows = joined(samples, CONTAINER, CONTAINER_METRICS, selected)
    return UsageTable("ContainerUsageList", CONTAINER, CONTAINER_METRICS, rows)


def ordered(usage: UsageTable, by: str) -> UsageTable:
    """The rows by a number of containers, the largest first and unknown ones last; else as they are."""
    places = {"used": 0, "allocated": 1, "utilization": 2}
    if by not in places:
        return usage
    place = places[by]
    known = (row for row in usage.rows if row[1][place] is not None)
    unknown = [row for row in usage.rows if row[1][place] is None]
    return replace(usage, rows=[*sorted(known, key=lambda row: -(row[1][place] or 0)), *unknown])


def gpus(samples: Sequence[MetricSample], selected: UsageFilter) -> UsageTable:
    """Every GPU, with its model and what is allocated on it."""
    models = {
        key[:2]: key[2] for key, _ in joined(samples, (*GPU, "model"), (catalogue.CARD_INFO,), selected)
    }
    allocated: Counter[tuple[str, ...]] = Counter()
    for key, numbers in joined(samples, CONTAINER, (catalogue.CONTAINER_ALLOCATED,), selected):
        allocated[key[-2:]] += int(numbers[0] or 0)
    rows = [
        ((*key, models.get(key, "")), (allocated[key], *numbers))
        for key, numbers in joined(samples, GPU, GPU_METRICS, selected)
    ]
    metrics = (catalogue.CONTAINER_ALLOCATED, *GPU_METRICS)
    return UsageTable("GpuUsageList", (*GPU, "model"), metrics, rows)


def series(samples: Sequence[MetricSample], metric: Metric, selected: UsageFilter) -> UsageTable:
    """Every series of one metric, also those whose value is not finite."""
    found = (each for each in samples if each.metric == str(metric) and selected.matches(each.labels))
    rows = sorted((label_values(each, metric.labels), (each.number,)) for each in found)
    return UsageTable("SeriesList", tuple(metric.labels), None, rows)


def metric_of_pods(name: str) -> Metric:
    """The metric of that name with a pod label. Raises ConfigError with the known names."""
    return _named(name, "pods", filter(_of_pods, catalogue.EXPORTER))


def metric_of_gpus(name: str) -> Metric:
    """The metric of that name with a GPU label and no pod label. Raises ConfigError with the known names."""
    own = (each for each in catalogue.EXPORTER if _has_label(each, _GPU_LABELS) and not _of_pods(each))
    return _named(name, "GPUs", own)


def _named(name: str, what: str, metrics: Iterable[Metric]) -> Metric:
    """The metric of that name; the suffix ``_total`` of a counter is optional."""
    known = list(metrics)
    for metric in known:
        if name in (str(metric), metric.name):
            return metric
    names = ", ".join(map(str, known))
    raise ConfigError(f"--metric: {name!r} is not a metric of {what}; use one of {names}")


def _of_pods(metric: Metric) -> bool:
    return _has_label(metric, POD_LABELS)


def _has_label(metric: Metric, labels: Iterable[str]) -> bool:
    return any(label in metric.labels for label in labels)
