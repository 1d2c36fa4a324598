"""Series of the exporters.

They are read through the API server, which needs the right to ``get`` ``pods/proxy`` in the namespace of the
exporters, or by a pod from the addresses of their pods.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from gpushare.adapters.http_client import HttpClient
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.metrics_api import PODS, DirectoryEntry
from gpushare.contract import EXPORTER_NAME, EXPORTER_PORT, SYSTEM_NAMESPACE
from gpushare.errors import ApiError, ConfigError, InvalidRequest, SourceError
from gpushare.monitoring.catalogue import EXPORTER, SOURCE_UP
from gpushare.monitoring.page import MetricSample, samples
from gpushare.overview.lists import decoded, listed, pods_path

_PODS: Final = pods_path(SYSTEM_NAMESPACE)
_SERIES: Final = frozenset(map(str, EXPORTER))
_TIMEOUT_S: Final = 10.0
_CONCURRENCY: Final = 32

PageOf = Callable[[DirectoryEntry], Awaitable[bytes]]
"""Reads the metrics page of an exporter. Raises ApiError and SourceError."""


def through_api_server(client: KubeClient) -> PageOf:
    """Reads pages through the API server."""

    async def read(exporter: DirectoryEntry) -> bytes:
        path = f"{_PODS}/{quote(exporter.name, safe='')}:{EXPORTER_PORT}/proxy/metrics"
        return await client.request("GET", path, timeout_s=_TIMEOUT_S)

    return read


def from_pods(pages: HttpClient) -> PageOf:
    """Reads pages from the pods, as another pod can."""

    async def read(exporter: DirectoryEntry) -> bytes:
        host = f"[{exporter.address}]" if ":" in exporter.address else exporter.address
        return await pages.get(f"http://{host}:{EXPORTER_PORT}/metrics")

    return read


async def collect_series(
    client: KubeClient, node: str | None, report: Callable[[str], None], page_of: PageOf | None = None
) -> list[MetricSample]:
    """All series of the exporters that respond.

    An exporter that does not respond is reported and skipped. Raises SourceError if none responds,
    ConfigError if there is none, and ApiError, also for the missing right to the proxy of the pods.
    """
    exporters = await _exporters(client, node)
    page_of = page_of or through_api_server(client)
    gate = asyncio.Semaphore(_CONCURRENCY)
    found = await asyncio.gather(*(_page(page_of, each, gate) for each in exporters))
    silent = [each for each in found if isinstance(each, SourceError)]
    if len(silent) == len(found):
        raise silent[0]
    for error in silent:
        report(f"warning: {error}")
    return [sample for page in found if not isinstance(page, SourceError) for sample in page]


async def _exporters(client: KubeClient, node: str | None) -> list[DirectoryEntry]:
    running = f"status.phase=Running{f',spec.nodeName={node}' if node else ''}"
    query = {"labelSelector": f"component={EXPORTER_NAME}", "fieldSelector": running}
    pods = decoded(await listed(client, _PODS, query), PODS.kind, _PODS)
    exporters = [found[1] for pod in pods if (found := PODS.read(pod))]
    if not exporters:
        where = f"on node {node}" if node else f"in {SYSTEM_NAMESPACE}"
        raise ConfigError(
            f"no exporter runs {where} (label component={EXPORTER_NAME}); deploy it: "
            "gpushare:monitoring: {} in the stack, monitoring.enabled=true in the chart"
        )
    return exporters


async def _page(
    page_of: PageOf, exporter: DirectoryEntry, gate: asyncio.Semaphore
) -> list[MetricSample] | SourceError:
    try:
        async with gate:
            body = await page_of(exporter)
        found = list(samples(body.decode(), _SERIES))
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            raise
        return _silent(exporter, str(error))
    except (SourceError, InvalidRequest, UnicodeDecodeError) as error:
        return _silent(exporter, str(error))
    # Every exporter serves this series, even if it can read nothing else.
    if not any(each.metric == SOURCE_UP.name for each in found):
        return _silent(exporter, "this is not the metrics page of an exporter")
    return found


def _silent(exporter: DirectoryEntry, cause: str) -> SourceError:
    return SourceError(f"exporter {exporter.name} on node {exporter.node}: {cause}")
