"""What the board shows of earlier days: ``/history?range=7d`` and ``/tenants?range=30d``, from Prometheus.

Answers are kept for a minute, so that many users and open pages ask Prometheus once. What does not belong
here: the queries (``gpushare.overview.past``), and who may ask (``login``).
"""

import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.prometheus import PrometheusClient, connected
from gpushare.board.routes import HISTORY, TENANTS
from gpushare.errors import ApiError, SourceError
from gpushare.overview.past import RANGES, Range, history, tenants
from gpushare.runtime.cache import FetchCache
from gpushare.runtime.http import Request, Response, text_response

DEFAULTS: Final = {HISTORY: "24h", TENANTS: "30d"}
"""Path → range if the request names none."""
_KEEP_S: Final = 60.0
_DEADLINE_S: Final = 20.0
_NONE: Final = (
    "This board knows no Prometheus. Set prometheusUrl in monitoring.board of the stack or the chart, or the "
    "flag --prometheus-url of gpushare board-server.\n"
)


@dataclass(frozen=True, slots=True)
class PastSource:
    """The URL of Prometheus, empty if there is none, and the value of the label ``cluster`` of its series."""

    url: str = ""
    cluster: str = ""


class Past:
    """Answers about earlier days."""

    def __init__(self, source: PastSource, client: KubeClient) -> None:
        self._source = source
        self._client = client
        self._recent: FetchCache[tuple[str, str], Response] = FetchCache(self._fetched, _KEEP_S)

    async def answer(self, request: Request) -> Response:
        """The document as JSON, or an error in one line."""
        if not self._source.url:
            return text_response(_NONE, HTTPStatus.NOT_FOUND)
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
