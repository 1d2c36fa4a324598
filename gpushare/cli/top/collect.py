"""Reads the series of the exporters: once, or every few seconds."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from gpushare.adapters.kube.client import KubeClient
from gpushare.errors import ApiError, ConfigError, SourceError
from gpushare.model.objects import Pod
from gpushare.monitoring.page import MetricSample
from gpushare.overview.exporters import collect_series
from gpushare.overview.selected_pods import pods_named, running_pods
from gpushare.overview.usage import POD_LABELS, UsageFilter
from gpushare.overview.usage_api import collect_usage

Samples = Sequence[MetricSample]


async def follow(
    read: Callable[[], Awaitable[Samples]],
    show: Callable[[Samples], None],
    report: Callable[[str], None],
    interval_s: float | None,
) -> None:
    """Calls ``show`` with what ``read`` returns: once, or each time after ``interval_s``.

    Raises SourceError if no exporter responds, ConfigError if there is none, and ApiError, in the first round
    only.
    """
    show(await read())
    while interval_s is not None:
        await asyncio.sleep(interval_s)
        try:
            found = await read()
        except (ApiError, ConfigError, SourceError) as error:
            report(f"{error}; next attempt in {interval_s:.0f} s")
        else:
            show(found)


async def of_pods(
    client: KubeClient,
    selected: UsageFilter,
    labels: str,
    report: Callable[[str], None],
    *,
    of_one_metric: bool,
) -> Samples:
    """The series of the selected pods. Raises as ``follow``, and ConfigError for an unknown pod.

    The usage API does not have every metric, so those of one metric come from the exporters.
    """
    pods = await pods_named(client, selected, selected.pod) if selected.pod else []
    if of_one_metric:
        found = await collect_series(client, selected.node, report)
    else:
        found = await collect_usage(client, selected, report)
    for pod in pods:
        if not any(selected.matches(each.labels) for each in found if POD_LABELS[0] in each.labels):
            report(f"pod {pod.full_name} has no usage: {_why_none(pod)}")
    return await _labelled(client, selected, labels, found) if labels else found


async def _labelled(client: KubeClient, selected: UsageFilter, labels: str, found: Samples) -> Samples:
    names = {(pod.namespace, pod.name) for pod in await running_pods(client, selected, labels)}
    return [each for each in found if (each.labels.get("namespace"), each.labels.get("pod")) in names]


def _why_none(pod: Pod) -> str:
    if pod.finished:
        return "it has finished"
    if pod.node is None:
        return "it has no node yet; `kubectl gpushare explain` says why"
    return f"the exporter of node {pod.node} reports no container of this pod with a GPU"
