"""Containers with GPU memory from the API server, and their series from the exporters or from Prometheus."""

import asyncio
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from gpushare.adapters.http_client import HttpClient
from gpushare.adapters.kube.wire import WirePod, pod_of
from gpushare.adapters.pages import Pages
from gpushare.cli.lib.prometheus import TIMEOUT_S, Prometheus, matchers
from gpushare.cli.recommend.sizing import Observed
from gpushare.errors import ApiError
from gpushare.model.demand import Demand
from gpushare.monitoring import catalogue
from gpushare.monitoring.page import MetricSample
from gpushare.overview.cluster import RUNNING, ApiSource, listed, pods_path
from gpushare.overview.exporters import read_series
from gpushare.overview.owners import OwnedPod

_FIELDS: Final = {
    str(catalogue.CONTAINER_ALLOCATED): "granted",
    str(catalogue.CONTAINER_LIMIT): "limit",
    str(catalogue.CONTAINER_PEAK): "peak",
    str(catalogue.CONTAINER_USED): "used",
    str(catalogue.CONTAINER_REFUSALS): "refusals",
}
_WHOLE_WINDOW: Final = {str(catalogue.CONTAINER_PEAK), str(catalogue.CONTAINER_USED)}
"""The others describe the present container, whose name a larger or smaller one may have had before."""
_PRESENT: Final = "5m"
"""So long Prometheus shows a value by default, also if scrapes fail."""
_KEY: Final = ("namespace", "pod", "container")
_SERIES: Final = ", ".join((*_KEY, "node", "card", "uuid"))

Numbers = Mapping[tuple[str, ...], Mapping[str, int]]

_decode_wire = msgspec.json.Decoder(WirePod).decode
_decode_owned = msgspec.json.Decoder(OwnedPod).decode


def gather(
    source: ApiSource,
    namespace: str | None,
    report: Callable[[str], None],
    *,
    prometheus: str | None,
    window_s: int,
    cluster: str | None,
) -> list[Observed]:
    """Every container with GPU memory of the bound pods that have not finished.

    Raises ApiError, ConfigError without an exporter, and SourceError if Prometheus or no exporter answers.
    """
    selected = matchers({"cluster": cluster, "namespace": namespace})
    return asyncio.run(_gather(source, pods_path(namespace), report, prometheus, (selected, window_s)))


async def _gather(
    source: ApiSource,
    path: str,
    report: Callable[[str], None],
    prometheus: str | None,
    selection: tuple[str, int],
) -> list[Observed]:
    async with await source.client() as client:
        pods = await listed(client, path, {"fieldSelector": f"spec.nodeName!=,{RUNNING}"})
        if prometheus is None:
            numbers = numbers_of(await read_series(client, None, report))
        else:
            async with HttpClient(timeout_s=TIMEOUT_S, environ=os.environ) as pages:
                asked = Prometheus(pages, prometheus, time.time())
                numbers = numbers_of(await _over_time(asked, *selection))
    return [each for raw in pods for each in _containers(raw, path, numbers)]


async def _over_time(prometheus: Prometheus, selected: str, window_s: int) -> list[MetricSample]:
    found: list[MetricSample] = []
    for metric in _FIELDS:
        series = await prometheus.ask(_query(metric, selected, window_s))
        found += (MetricSample(metric, each.labels, float(each.value)) for each in series)
    return found


def _query(metric: str, selected: str, window_s: int) -> str:
    """The largest peak and usage in the window, and the present value of the other metrics.

    Series that several jobs scrape are one.
    """
    present = f"last_over_time({metric}{selected}[{_PRESENT}])"
    highest = f"max_over_time({metric}{selected}[{window_s}s])"
    return f"max by ({_SERIES}) ({highest if metric in _WHOLE_WINDOW else present})"


def numbers_of(samples: Iterable[MetricSample]) -> Numbers:
    """By container, the largest finite value on its GPUs; refusals are summed."""
    found: dict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
    for sample in samples:
        if (field := _FIELDS.get(sample.metric)) and math.isfinite(sample.number):
            numbers = found[tuple(sample.labels.get(label, "") for label in _KEY)]
            before, value = numbers.get(field, 0), int(sample.number)
            numbers[field] = before + value if field == "refusals" else max(before, value)
    return found


def _containers(raw: msgspec.Raw, path: str, numbers: Numbers) -> Iterable[Observed]:
    try:
        pod, owned = pod_of(_decode_wire(raw)), _decode_owned(raw)
    except msgspec.DecodeError as error:
        raise ApiError(f"{path}: a pod cannot be read: {error}", reason="Unreadable") from error
    if pod is None or not isinstance(pod.demand, Demand):
        return
    cards = pod.demand.cards
    for each in pod.demand.containers:
        if each.mem:
            known = numbers.get((pod.namespace, pod.name, each.name), {})
            yield Observed(pod.namespace, owned.owner, each.name, each.mem // cards, cards, **known)
