"""Health, readiness and metrics of the board in a cluster. Pure.

The page of metrics is written without Prometheus' library, which the kubectl plugin does not have.
"""

import math
from http import HTTPStatus
from typing import Final

from gpushare import __version__
from gpushare.monitoring.catalogue import BOARD_CERTIFICATE_EXPIRY, BUILD_INFO, Metric
from gpushare.runtime.http import Request, Response, no_route, text_response, wrong_method

_PATHS: Final = ("/healthz", "/readyz", "/metrics")
_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def respond(request: Request, missing: str | None, expires_at: float) -> Response:
    """The response to a probe or a scrape.

    ``missing`` is why the board is not ready, None if it is; ``expires_at`` is the end of its certificate in
    seconds of Unix time, NaN if it is unknown.
    """
    if request.path not in _PATHS:
        return no_route(request, _PATHS)
    if request.method not in ("GET", "HEAD"):
        return wrong_method("GET, HEAD")
    if request.path == "/metrics":
        return Response(_page(expires_at).encode(), content_type=_CONTENT_TYPE)
    if missing and request.path == "/readyz":
        return text_response(missing, HTTPStatus.SERVICE_UNAVAILABLE)
    return text_response("ok")


def _page(expires_at: float) -> str:
    end = "NaN" if math.isnan(expires_at) else repr(expires_at)
    version = f'{{version="{__version__}"}}'
    return _family(BUILD_INFO, f"{version} 1") + _family(BOARD_CERTIFICATE_EXPIRY, f" {end}")


def _family(metric: Metric, labels_and_value: str) -> str:
    return f"# HELP {metric} {metric.help}\n# TYPE {metric} {metric.kind}\n{metric}{labels_and_value}\n"
