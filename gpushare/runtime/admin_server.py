"""The admin server of a daemon: health, readiness, metrics."""

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from gpushare.runtime.http import (
    PendingResponse,
    Request,
    Response,
    no_route,
    text_response,
    wrong_method,
)

Check = Callable[[], str | None]
Render = Callable[[str], tuple[bytes, str]]
"""Maps an Accept header to the metrics and their content type."""
_VERSION: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}", re.ASCII)
_END: Final = b"# EOF\n"
"""The last line in the format of OpenMetrics."""


def encoder_of(accept: str) -> tuple[Callable[[Any], bytes], str]:
    """Return the encoder of metrics for an Accept header, and its content type.

    prometheus_client fails for some versions that are no numbers, and repeats others in the content type. The
    values of repeated headers are in separate lines.
    """
    ranges = re.split("[,\n]", accept)
    return choose_encoder(",".join(filter(_has_version, ranges)))


def _has_version(media_range: str) -> bool:
    """Whether the version of a format is a number, if it has one."""
    parameters = (each.strip().partition("=") for each in media_range.split(";"))
    return all(_VERSION.fullmatch(value) for name, _, value in parameters if name == "version")


def rendering(registry: CollectorRegistry) -> Render:
    """Return a function that renders the current metrics of the registry."""

    def render(accept: str) -> tuple[bytes, str]:
        encode, content_type = encoder_of(accept)
        return encode(registry), content_type

    return render


class AdminRoutes:
    """Handles /healthz, /readyz and /metrics. A check returns the problem, or None.

    ``notices`` are lines for the administrator in the response of a daemon that is ready. While ``stopping``
    is set, it is not ready. ``gauges`` computes more metrics in slices, as lines that are the same in every
    format.
    """

    def __init__(
        self,
        render: Render,
        *,
        live: Check,
        ready: Check,
        notices: Callable[[], Iterable[str]] = tuple,
        gauges: Callable[[], Awaitable[bytes]] | None = None,
    ) -> None:
        self.stopping = False
        self._render = render
        self._live = live
        self._ready = ready
        self._notices = notices
        self._gauges = gauges
        self._routes = {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics}

    def __call__(self, request: Request) -> Response | PendingResponse:
        """Respond to a request."""
        route = self._routes.get(request.path)
        if route is None:
            return no_route(request, self._routes)
        return route(request) if request.method in ("GET", "HEAD") else wrong_method("GET, HEAD")

    def _healthz(self, _: Request) -> Response:
        return _check(self._live())

    def _readyz(self, _: Request) -> Response:
        return _check("stopping" if self.stopping else self._ready(), *self._notices())

    def _metrics(self, request: Request) -> Response | PendingResponse:
        page, content_type = self._render(request.headers.get(b"accept", b"").decode("latin-1"))
        response = Response(page, content_type=content_type)
        return response if self._gauges is None else _extended(response, self._gauges())


async def _extended(response: Response, gauges: Awaitable[bytes]) -> Response:
    page, end, _ = response.body.partition(_END)
    return replace(response, body=b"".join((page, await gauges, end)))


def _check(problem: str | None, *notices: str) -> Response:
    if problem is not None:
        return text_response(problem, HTTPStatus.SERVICE_UNAVAILABLE)
    return text_response("\n".join(["ok", *notices]))
