"""The exporters' pages, read through the API server: once, or again and again.

Who may read them there needs ``get`` of ``pods/proxy`` in the exporters' namespace.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.cli.cluster import Source
from gpushare.contract import EXPORTER_NAME, EXPORTER_PORT, SYSTEM_NAMESPACE
from gpushare.errors import ApiError, ConfigError, InvalidRequest
from gpushare.monitoring.page import Page, read_page

_PODS: Final = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods"
_TIMEOUT_S: Final = 10.0
_AT_ONCE: Final = 32
_AGAIN_S: Final = 5.0


class _Meta(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec


class _Pods(msgspec.Struct):
    items: list[_Pod]


_decode = msgspec.json.Decoder(_Pods).decode


def show_pages(
    show: Callable[[Sequence[Page]], None],
    report: Callable[[str], None],
    *,
    source: Source,
    node: str | None,
    watch: bool,
) -> None:
    """Show what the exporters say, of all nodes or of one, once or every few seconds.

    An exporter that does not answer is reported, and the others are shown. Raises ApiError where none
    answers, and ConfigError where there is none.
    """
    asyncio.run(_show(show, report, source=source, node=node, watch=watch))


async def _show(
    show: Callable[[Sequence[Page]], None],
    report: Callable[[str], None],
    *,
    source: Source,
    node: str | None,
    watch: bool,
) -> None:
    async with KubeClient(await load_access(source.path(), source.context)) as client:
        while True:
            show(await pages(client, node, report))
            if not watch:
                return
            await asyncio.sleep(_AGAIN_S)


async def pages(client: KubeClient, node: str | None, report: Callable[[str], None]) -> list[Page]:
    """One page of each exporter that answers. Raises as ``show_pages`` does."""
    exporters = await _exporters(client, node)
    gate = asyncio.Semaphore(_AT_ONCE)
    found = await asyncio.gather(*(_page(client, each, gate) for each in exporters))
    silent = [each for each in found if isinstance(each, ApiError)]
    if len(silent) == len(found):
        raise silent[0]
    for error in silent:
        report(f"warning: {error}")
    return [each for each in found if not isinstance(each, ApiError)]


async def _exporters(client: KubeClient, node: str | None) -> list[_Pod]:
    running = f"status.phase=Running{f',spec.nodeName={node}' if node else ''}"
    query = {"labelSelector": f"component={EXPORTER_NAME}", "fieldSelector": running}
    body = await client.request("GET", _PODS, timeout_s=_TIMEOUT_S, query=query)
    exporters = _decode(body).items
    if not exporters:
        where = f"on node {node}" if node else f"in {SYSTEM_NAMESPACE}"
        raise ConfigError(
            f"no exporter runs {where} (label component={EXPORTER_NAME}): deploy it, or its node"
        )
    return exporters


async def _page(client: KubeClient, exporter: _Pod, gate: asyncio.Semaphore) -> Page | ApiError:
    name, node = exporter.metadata.name, exporter.spec.node_name
    path = f"{_PODS}/{quote(name, safe='')}:{EXPORTER_PORT}/proxy/metrics"
    try:
        async with gate:
            return read_page((await client.request("GET", path, timeout_s=_TIMEOUT_S)).decode())
    except (ApiError, InvalidRequest, UnicodeDecodeError) as error:
        return ApiError(f"exporter {name} on node {node}: {error}", status=getattr(error, "status", 0))
