"""What the board shows of earlier days: ``/history?range=7d`` and ``/tenants?range=30d``, from Prometheus.

``/ranges`` has the ranges that can be asked for. Answers are kept for a minute, so that many users and open
pages ask Prometheus once. What does not belong here: the queries (``gpushare.overview.past``), and who may
ask (``login``, ``loopback``).
"""

import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.prometheus import PrometheusClient, connected
from gpushare.board.routes import HISTORY, TENANTS, TIMES
from gpushare.errors import ApiError, SourceError
from gpushare.overview.documents import document
from gpushare.overview.past import RANGES, Range, history, tenants
from gpushare.runtime.cache import FetchCache
from gpushare.runtime.http import Request, Response, text_response

DEFAULTS: Final = {HISTORY: "24h", TENANTS: "30d"}
"""Path → range if the request names none."""
PATHS: Final = (TIMES, *DEFAULTS)
_KEEP_S: Final = 60.0
_DEADLINE_S: Final = 20.0
IN_CLUSTER: Final = (
    "Set prometheusUrl in monitoring.board of the stack or the chart, or the flag --prometheus-url of "
    "gpushare board-server."
)
ON_ONE_MACHINE: Final = "Start kubectl gpushare board with --prometheus URL."


@dataclass(frozen=True, slots=True)
class PastSource:
    """The URL of Prometheus, empty if there is none, and the value of the label ``cluster`` of its series.

    ``way`` is a sentence: how to set the URL.
    """

    url: str = ""
    cluster: str = ""
    way: str = IN_CLUSTER

    @property
    def missing(self) -> str:
        """Why there are no earlier days, and what gives them; empty with a URL."""
        return "" if self.url else f"Earlier days need Prometheus, and this board knows none. {self.way}"


class Past:
    """Answers about earlier days."""

    def __init__(self, source: PastSource, client: KubeClient) -> None:
        self._source = source
        self._client = client
        self._recent: FetchCache[tuple[str, str], Response] = FetchCache(self._fetched, _KEEP_S)

    async def answer(self, request: Request) -> Response:
        """The document as JSON, or an error in one line."""
        missing = self._source.missing
        if request.path == TIMES:
            return Response(msgspec.json.encode(ranges_document(missing)))
        if missing:
            return text_response(f"{missing}\n", HTTPStatus.NOT_FOUND)
        name = parse_qs(request.query).get("range", [DEFAULTS[request.path]])[0]
        if name not in RANGES:
            text = f"range {name[:20]!r} is unknown: use one of {', '.join(RANGES)}\n"
            return text_response(text, HTTPStatus.BAD_REQUEST)
        return await self._recent.get((request.path, name))

    async def _fetched(self, key: tuple[str, str]) -> Response:
        path, name = key
        now = time.time()
        try:
            async with connected(self._source.url, now, _DEADLINE_S) as prometheus:
                found = await self._document(path, prometheus, RANGES[name], now)
        except (SourceError, ApiError) as error:
            return text_response(f"{error}\n", HTTPStatus.BAD_GATEWAY)
        return Response(msgspec.json.encode(found))

    async def _document(
        self, path: str, prometheus: PrometheusClient, asked: Range, now: float
    ) -> dict[str, Any]:
        cluster = self._source.cluster
        if path == TENANTS:
            return await tenants(prometheus, self._client, asked, now, cluster)
        span = asked.span(now)
        return await history(prometheus, span, asked, cluster)


def ranges_document(missing: str) -> dict[str, Any]:
    """The ranges that can be asked for: none if Prometheus is ``missing``, and why."""
    return document("GpuRanges", items=[] if missing else list(RANGES), note=missing)
