"""Containers with GPU memory from the API server, and their series.

The series come from Prometheus, from the exporters, or with the rights of one namespace from the usage API.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import pod_of
from gpushare.adapters.prometheus import PrometheusClient, connected, matchers
from gpushare.cli.recommend.sizing import Observed
from gpushare.model.demand import Demand
from gpushare.model.objects import Pod
from gpushare.monitoring import catalogue
from gpushare.monitoring.page import MetricSample
from gpushare.overview.lists import RUNNING, decoded, listed, pods_path
from gpushare.overview.objects import ClusterPod, PodOwner
from gpushare.overview.usage import UsageFilter
from gpushare.overview.usage_api import collect_usage

_FIELDS: Final = {
    str(catalogue.CONTAINER_ALLOCATED): "granted",
    str(catalogue.CONTAINER_LIMIT): "limit",
    str(catalogue.CONTAINER_PEAK): "peak",
    str(catalogue.CONTAINER_USED): "used",
    str(catalogue.CONTAINER_REFUSALS): "refusals",
    str(catalogue.CONTAINER_NEEDED): "needed",
}
_WHOLE_WINDOW: Final = {str(catalogue.CONTAINER_PEAK), str(catalogue.CONTAINER_USED)}
"""The others describe the present container, whose name a larger or smaller one may have had before."""
_GPU: Final = str(catalogue.CARD_MEMORY)
_PRESENT: Final = "5m"
"""So long Prometheus shows a value by default, also if scrapes fail."""
_KEY: Final = ("namespace", "pod", "container")
_SERIES: Final = ", ".join((*_KEY, "node", "card", "uuid"))

Numbers = Mapping[tuple[str, ...], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Peaks:
    """Where peaks come from: the exporters, or the series of a cluster in Prometheus over a time."""

    prometheus: str | None = None
    window_s: int = 0
    cluster: str | None = None


async def collect(
    client: KubeClient, namespace: str | None, peaks: Peaks, report: Callable[[str], None]
) -> list[Observed]:
    """Every container with GPU memory of the bound pods that have not finished.

    Raises ApiError, ConfigError without an exporter, and SourceError if Prometheus or no exporter answers.
    """
    path = pods_path(namespace)
    raws = await listed(client, path, {"fieldSelector": f"spec.nodeName!=,{RUNNING}"})
    if peaks.prometheus is None:
        numbers = numbers_of(await collect_usage(client, UsageFilter(namespace=namespace), report))
    else:
        selected = matchers({"cluster": peaks.cluster, "namespace": namespace})
        async with connected(peaks.prometheus, time.time()) as asked:
            found = await _over_time(asked, selected, peaks.window_s)
            numbers = numbers_of([*found, *await _gpus(asked, matchers({"cluster": peaks.cluster}))])
    pods = decoded(raws, ClusterPod, path)
    return [each for pod in pods for each in _containers(pod_of(pod), pod.owner, numbers)]


async def _over_time(prometheus: PrometheusClient, selected: str, window_s: int) -> list[MetricSample]:
    found: list[MetricSample] = []
    for metric in _FIELDS:
        series = await prometheus.ask(_query(metric, selected, window_s))
        found += (MetricSample(metric, each.labels, float(each.value)) for each in series)
    return found


async def _gpus(prometheus: PrometheusClient, selected: str) -> list[MetricSample]:
    series = await prometheus.ask(_query(_GPU, selected, 0))
    return [MetricSample(_GPU, each.labels, float(each.value)) for each in series]


def _query(metric: str, selected: str, window_s: int) -> str:
    """The largest peak and usage in the window, and the present value of the other metrics.

    Series that several jobs scrape are one.
    """
    present = f"last_over_time({metric}{selected}[{_PRESENT}])"
    highest = f"max_over_time({metric}{selected}[{window_s}s])"
    return f"max by ({_SERIES}) ({highest if metric in _WHOLE_WINDOW else present})"


def numbers_of(samples: Iterable[MetricSample]) -> Numbers:
    """By container, the largest finite value on its GPUs, and of their memory; refusals are summed."""
    finite = [sample for sample in samples if math.isfinite(sample.number)]
    gpus = {each.labels.get("uuid"): int(each.number) for each in finite if each.metric == _GPU}
    found: dict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
    for sample in finite:
        if field := _FIELDS.get(sample.metric):
            numbers = found[tuple(sample.labels.get(label, "") for label in _KEY)]
            before, value = numbers.get(field, 0), int(sample.number)
            numbers[field] = before + value if field == "refusals" else max(before, value)
            if gpu := gpus.get(sample.labels.get("uuid")):
                numbers["gpu"] = max(numbers.get("gpu", 0), gpu)
    return found


def _containers(pod: Pod | None, owner: PodOwner, numbers: Numbers) -> Iterable[Observed]:
    if pod is None or not isinstance(pod.demand, Demand):
        return
    cards = pod.demand.cards
    for each in pod.demand.containers:
        if each.mem:
            known = numbers.get((pod.namespace, pod.name, each.name), {})
            yield Observed(pod.namespace, owner, each.name, each.mem // cards, cards, **known)
