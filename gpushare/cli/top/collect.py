"""Reads the series of the exporters: once, or every few seconds."""

import asyncio
from collections.abc import Callable, Sequence

from gpushare.adapters.kube.client import KubeClient
from gpushare.errors import ApiError, ConfigError, SourceError
from gpushare.monitoring.page import MetricSample
from gpushare.overview.exporters import collect_series


async def collect(
    client: KubeClient,
    node: str | None,
    show: Callable[[Sequence[MetricSample]], None],
    report: Callable[[str], None],
    interval_s: float | None,
) -> None:
    """Calls ``show`` with the series of all nodes or of one: once, or each time after ``interval_s``.

    Raises SourceError if no exporter responds, ConfigError if there is none, and ApiError, in the first round
    only.
    """
    show(await collect_series(client, node, report))
    while interval_s is not None:
        await asyncio.sleep(interval_s)
        try:
            found = await collect_series(client, node, report)
        except (ApiError, ConfigError, SourceError) as error:
            report(f"{error}; next attempt in {interval_s:.0f} s")
        else:
            show(found)
