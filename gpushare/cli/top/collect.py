"""Reads the usage of GPUs and pods from the exporters, and shows it once or every few seconds."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from gpushare.adapters.kube.client import KubeClient
from gpushare.cli.lib.screen import Screen, watching_screen
from gpushare.cli.lib.serialized import serialized
from gpushare.cli.top.render import table, usage_document
from gpushare.cli.top.usage import UsageOf, UsageTable
from gpushare.errors import ApiError, ConfigError, SourceError
from gpushare.monitoring.page import MetricSample
from gpushare.overview.connection import ApiSource
from gpushare.overview.exporters import collect_series
from gpushare.overview.usage import UsageFilter

_INTERVAL_S: Final = 5.0


def show_usage(
    source: ApiSource, usage_of: UsageOf, selected: UsageFilter, *, output: str | None, watch: bool
) -> None:
    """Shows usage once, or every few seconds until interrupted. Raises as ``rounds`` does."""
    screen = watching_screen(watch=watch)

    def show(samples: Sequence[MetricSample]) -> None:
        _show(screen, usage_of(samples), selected.namespace, output)

    source.ask(
        lambda client: rounds(client, selected.node, show, screen.report, _INTERVAL_S if watch else None)
    )


def _show(screen: Screen, usage: UsageTable, namespace: str | None, output: str | None) -> None:
    if output:
        screen.show(serialized(usage_document(usage), output))
    else:
        screen.show_table(table(usage), namespace)


async def rounds(
    client: KubeClient,
    node: str | None,
    show: Callable[[Sequence[MetricSample]], None],
    report: Callable[[str], None],
    interval_s: float | None,
) -> None:
    """Reads and shows the series of all nodes or of one: once, or each time after ``interval_s``.

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
