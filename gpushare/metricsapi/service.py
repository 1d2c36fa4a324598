"""One request, from who asks to the answer.

In this order: is it the front proxy, may its client read this, is there such a metric, which objects are
meant, what are their values. Every refusal is a Status object.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

import structlog

from gpushare.contract import METRICS_API_GROUP, METRICS_API_VERSIONS
from gpushare.errors import ApiError, InvalidRequest, SourceError
from gpushare.metricsapi import documents
from gpushare.metricsapi.authorization import Authorizer
from gpushare.metricsapi.directory import Directory
from gpushare.metricsapi.documents import failure
from gpushare.metricsapi.identity import FrontProxy, caller_of
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.metricsapi.paths import ALL, MetricRequest, attributes_of, metric_request_of
from gpushare.metricsapi.queries import MetricQuery, MetricValue, ObjectKind, definition_of
from gpushare.metricsapi.sources import ValueSource
from gpushare.model.selector import Selector, parse_selector
from gpushare.runtime.http import Coming, Request, Response, text_response

log = structlog.get_logger()

_OPEN: Final = ("/healthz", "/livez", "/readyz")
"""What anybody may ask, as with every API server."""
_DISCOVERY: Final = {
    "/apis": documents.group_list(),
    f"/apis/{METRICS_API_GROUP}": documents.group(),
    **{f"/apis/{METRICS_API_GROUP}/{each}": documents.resource_list(each) for each in METRICS_API_VERSIONS},
}
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class MetricsService:
    """``front`` tells how the API server shows itself, None while that is not known."""

    front: Callable[[], FrontProxy | None]
    access: Authorizer
    source: ValueSource
    pods: Directory
    nodes: Directory
    metrics: ApiMetrics

    def handle(self, request: Request) -> Response | Coming:
        """The answer to one request."""
        if request.path in _OPEN:
            return text_response("ok")
        return self._timed(request)

    async def _timed(self, request: Request) -> Response:
        begun = time.monotonic()
        ask = metric_request_of(request.path)
        kind = ask.kind.value if ask else "other"
        answer = await self._answer(request, ask)
        self.metrics.requests.labels(kind, str(answer.status)).inc()
        self.metrics.latency.labels(kind).observe(time.monotonic() - begun)
        return answer

    async def _answer(self, request: Request, ask: MetricRequest | None) -> Response:
        if refusal := await self._refusal(request):
            return refusal
        if request.method != "GET":
            return failure(
                HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not GET: metrics are only read"
            )
        if ask:
            return await self._metric(ask, parse_qs(request.query))
        document = _DISCOVERY.get(request.path.rstrip("/"))
        if document is None:
            return failure(
                HTTPStatus.NOT_FOUND, f"nothing is at {request.path}: see /apis/{METRICS_API_GROUP}"
            )
        return documents.answer(document)

    async def _refusal(self, request: Request) -> Response | None:
        front = self.front()
        if front is None:
            return failure(HTTPStatus.SERVICE_UNAVAILABLE, "the API server has not told its front proxy yet")
        caller = caller_of(request.peer, request.headers, front)
        if isinstance(caller, str):
            log.warning("stranger_refused", path=request.path, reason=caller)
            return failure(HTTPStatus.FORBIDDEN, caller)
        try:
            if await self.access.allowed(caller, attributes_of(request.method, request.path)):
                return None
        except ApiError as error:
            return failure(HTTPStatus.SERVICE_UNAVAILABLE, f"nobody says whether this is allowed: {error}")
        what = f"{request.method.lower()} {request.path}"
        return failure(HTTPStatus.FORBIDDEN, f"user {caller.user!r} may not {what}: no role of its allows it")

    async def _metric(self, ask: MetricRequest, query: Mapping[str, list[str]]) -> Response:
        offer = definition_of(ask.metric, ask.kind)
        if isinstance(offer, str):
            text = f"there is no metric {ask.metric!r} of {ask.kind.value}; there is {offer}"
            return failure(HTTPStatus.NOT_FOUND, text)
        try:
            objects = _selector(query, "labelSelector")
            series = _selector(query, "metricLabelSelector", _LABEL)
        except InvalidRequest as error:
            return failure(HTTPStatus.BAD_REQUEST, str(error))
        one = "" if ask.name == ALL else ask.name
        question = MetricQuery(offer, ask.kind, ask.namespace, one, series)
        chosen = self._chosen(question, objects)
        if one and not chosen:
            return failure(HTTPStatus.NOT_FOUND, f"{ask.kind.value} {one!r} is not there")
        return await self._values(ask, question, chosen)

    async def _values(self, ask: MetricRequest, question: MetricQuery, chosen: frozenset[str]) -> Response:
        try:
            told = await self.source.values(question)
        except SourceError as error:
            return failure(HTTPStatus.SERVICE_UNAVAILABLE, f"{ask.metric} cannot be read: {error}")
        values: dict[str, MetricValue] = {name: value for name, value in told.items() if name in chosen}
        if question.name and not values:
            text = f"{ask.kind.value} {question.name!r} has no {ask.metric} now"
            return failure(HTTPStatus.NOT_FOUND, text)
        return documents.answer(documents.value_list(ask.version, question, values))

    def _chosen(self, question: MetricQuery, selector: Selector) -> frozenset[str]:
        """The names of the objects that are meant and there. A namespace is there where its pods are."""
        if question.kind is ObjectKind.NAMESPACES:
            return frozenset([question.name] if self.pods.of(question.namespace) else [])
        directory = self.pods if question.kind is ObjectKind.PODS else self.nodes
        known = directory.of(question.namespace)
        if question.name:
            known = {question.name: known[question.name]} if question.name in known else {}
        return frozenset(name for name, entry in known.items() if selector(entry.labels))


def _selector(query: Mapping[str, list[str]], key: str, label: re.Pattern[str] | None = None) -> Selector:
    """The selector of a query. Raises InvalidRequest, with the parameter's name."""
    text = ",".join(query.get(key, ()))
    try:
        selector = parse_selector(text)
    except InvalidRequest as error:
        raise InvalidRequest(f"{key}: {error}") from error
    for term in selector.terms:
        if label and not label.fullmatch(term.key):
            raise InvalidRequest(f"{key}: {term.key!r} cannot be the label of a series")
    return selector
