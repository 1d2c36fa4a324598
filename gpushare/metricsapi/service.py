"""Serves requests: authentication, authorization, lookup of the metric and its objects, values.

Every error response is a Status object.
"""

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

import structlog

from gpushare.contract import METRICS_API_GROUP, METRICS_API_VERSIONS, USAGE_API_GROUP
from gpushare.errors import ApiError, InvalidRequest, SourceError
from gpushare.metricsapi import documents
from gpushare.metricsapi.access import Authorizer
from gpushare.metricsapi.directory import Directory
from gpushare.metricsapi.documents import failure
from gpushare.metricsapi.identity import FrontProxy, caller_of
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.metricsapi.paths import (
    ALL,
    MetricRequest,
    UsageRequest,
    attributes_of,
    metric_request_of,
    usage_request_of,
)
from gpushare.metricsapi.queries import MetricQuery, MetricValue, ObjectKind, definition_of
from gpushare.metricsapi.selection import selector_of
from gpushare.metricsapi.usage import UsageService
from gpushare.model.selector import Selector
from gpushare.model.usage_documents import USAGE_VERSION
from gpushare.runtime.http import PendingResponse, Request, Response, text_response
from gpushare.runtime.rate import RateLimit, refusal_log

log = structlog.get_logger()

_OPEN: Final = ("/healthz", "/livez", "/readyz")
"""Open to all clients, as on every API server."""
_DISCOVERY: Final = {
    "/apis": documents.group_list(),
    **{f"/apis/{each}": documents.group(each) for each in documents.GROUPS},
    **{f"/apis/{METRICS_API_GROUP}/{each}": documents.resource_list(each) for each in METRICS_API_VERSIONS},
    f"/apis/{USAGE_VERSION}": documents.usage_resource_list(),
}
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

ValuesOf = Callable[[MetricQuery], Awaitable[Mapping[str, MetricValue]]]
"""Values by object name. Raises SourceError if there are none."""


@dataclass(frozen=True, slots=True)
class MetricsService:
    """``front`` returns the API server's front proxy, None while it is unknown."""

    front: Callable[[], FrontProxy | None]
    access: Authorizer
    values: ValuesOf
    pods: Directory
    nodes: Directory
    usage: UsageService
    metrics: ApiMetrics
    log_rate: RateLimit = field(default_factory=refusal_log)

    def handle(self, request: Request) -> Response | PendingResponse:
        """Handle one request."""
        if request.path in _OPEN:
            return text_response("ok")
        return self._timed(request)

    async def _timed(self, request: Request) -> Response:
        begun = time.monotonic()
        target = metric_request_of(request.path) or usage_request_of(request.path)
        kind = target.kind.value if target else "other"
        answer = await self._answer(request, target)
        self.metrics.requests.labels(kind, str(answer.status)).inc()
        self.metrics.latency.labels(kind).observe(time.monotonic() - begun)
        return answer

    async def _answer(self, request: Request, target: MetricRequest | UsageRequest | None) -> Response:
        if rejection := await self._rejection(request):
            return rejection
        if request.method != "GET":
            return failure(
                HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not GET: this API is read-only"
            )
        if isinstance(target, UsageRequest):
            return await self.usage.respond(request, target, parse_qs(request.query, keep_blank_values=True))
        if target:
            return await self._metric(target, parse_qs(request.query))
        document = _DISCOVERY.get(request.path.rstrip("/"))
        if document is None:
            return failure(
                HTTPStatus.NOT_FOUND, f"{request.path} does not exist: see {_nearest(request.path)}"
            )
        return documents.json_response(document)

    async def _rejection(self, request: Request) -> Response | None:
        front = self.front()
        if front is None:
            return failure(
                HTTPStatus.SERVICE_UNAVAILABLE, "the front proxy of the API server is not known yet"
            )
        peer = request.certificate.common_name if request.certificate else ""
        caller = caller_of(peer, request.headers, front)
        if isinstance(caller, str):
            if self.log_rate.take("caller_refused"):
                log.warning("caller_refused", path=request.path, reason=caller)
            return failure(HTTPStatus.FORBIDDEN, caller)
        try:
            if await self.access.allowed(caller, attributes_of(request.method, request.path)):
                return None
        except ApiError as error:
            return failure(HTTPStatus.SERVICE_UNAVAILABLE, f"the access review failed: {error}")
        what = f"{request.method.lower()} {request.path}"
        reason = f"user {caller.user!r} may not {what}: no role allows it{_way_out(request.path)}"
        return failure(HTTPStatus.FORBIDDEN, reason)

    async def _metric(self, target: MetricRequest, parameters: Mapping[str, list[str]]) -> Response:
        definition = definition_of(target.metric, target.kind)
        if isinstance(definition, str):
            text = f"there is no metric {target.metric!r} of {target.kind.value}: use one of {definition}"
            return failure(HTTPStatus.NOT_FOUND, text)
        try:
            objects = selector_of(parameters, "labelSelector")
            series = selector_of(parameters, "metricLabelSelector", _LABEL)
        except InvalidRequest as error:
            return failure(HTTPStatus.BAD_REQUEST, str(error))
        one = "" if target.name == ALL else target.name
        query = MetricQuery(definition, target.kind, target.namespace, one, series)
        chosen = self._chosen(query, objects)
        if one and not chosen:
            return failure(HTTPStatus.NOT_FOUND, f"{target.kind.value} {one!r} not found")
        return await self._values(target, query, chosen)

    async def _values(self, target: MetricRequest, query: MetricQuery, chosen: frozenset[str]) -> Response:
        try:
            found = await self.values(query)
        except SourceError as error:
            return failure(HTTPStatus.SERVICE_UNAVAILABLE, f"{target.metric} cannot be read: {error}")
        values: dict[str, MetricValue] = {name: value for name, value in found.items() if name in chosen}
        if query.name and not values:
            text = f"{target.kind.value} {query.name!r} has no {target.metric} now"
            return failure(HTTPStatus.NOT_FOUND, text)
        return documents.json_response(documents.value_list(target.version, query, values))

    def _chosen(self, query: MetricQuery, selector: Selector) -> frozenset[str]:
        """Return the names of selected objects that exist. A namespace exists if it has pods."""
        if query.kind is ObjectKind.NAMESPACES:
            return frozenset([query.name] if self.pods.of(query.namespace) else [])
        directory = self.pods if query.kind is ObjectKind.PODS else self.nodes
        known = directory.of(query.namespace)
        if query.name:
            known = {query.name: known[query.name]} if query.name in known else {}
        return frozenset(name for name, entry in known.items() if selector(entry.labels))


def _nearest(path: str) -> str:
    """The path that lists what there is."""
    usage = path.startswith(f"/apis/{USAGE_API_GROUP}")
    listed = f"/apis/{USAGE_VERSION}, whose resources are read in one namespace (-n)"
    return listed if usage else f"/apis/{METRICS_API_GROUP}"


def _way_out(path: str) -> str:
    target = usage_request_of(path)
    if target is None:
        return ""
    return f"; whoever administers namespace {target.namespace} can bind the ClusterRole view to the user"
