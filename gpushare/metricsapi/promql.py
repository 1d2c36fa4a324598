"""From a question to PromQL, and from Prometheus' answer to numbers. Pure.

The query: https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries
"""

import json
import math
import re

import msgspec

from gpushare.errors import SourceError
from gpushare.metricsapi.queries import Combine, MetricQuery, MetricValue, ObjectKind, name_label
from gpushare.model.selector import Term
from gpushare.monitoring.catalogue import Metric


class _Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _QueryData(msgspec.Struct):
    result: list[_Series] = msgspec.field(default_factory=list)


class _Reply(msgspec.Struct):
    status: str
    data: _QueryData = msgspec.field(default_factory=_QueryData)
    error: str = ""


_decode = msgspec.json.Decoder(_Reply).decode


def promql(question: MetricQuery) -> str:
    """The query whose answer has one series for each object, named by one label."""
    offer = question.offer
    text = _combined(offer.read, question, offer.combine)
    return f"{text} / {_combined(offer.over, question, 'sum')}" if offer.over else text


def _combined(metric: Metric, question: MetricQuery, combine: Combine) -> str:
    label = name_label(metric, question.kind)
    matchers = [
        f"{label}={json.dumps(question.name)}" if question.name else f'{label}!=""',
        *(_matcher(term) for term in question.selector.terms),
    ]
    if question.kind is ObjectKind.PODS:
        matchers.insert(0, f"{name_label(metric, ObjectKind.NAMESPACES)}={json.dumps(question.namespace)}")
    return f"{combine}({metric.name}{{{','.join(matchers)}}}) by ({label})"


def _matcher(term: Term) -> str:
    """A label that is absent is an empty one to Prometheus."""
    if term.values is None:
        return f'{term.key}{"!=" if term.wanted else "="}""'
    sign = "=~" if term.wanted else "!~"
    return f"{term.key}{sign}{json.dumps('|'.join(map(re.escape, sorted(term.values))))}"


def values_of(body: bytes, question: MetricQuery) -> dict[str, MetricValue]:
    """Name of an object → its number. Raises SourceError for an answer that is none."""
    label = name_label(question.offer.read, question.kind)
    try:
        reply = _decode(body)
        told = {each.metric.get(label, ""): _value(*each.value) for each in reply.data.result}
    except (msgspec.DecodeError, ValueError) as error:
        raise SourceError(f"the answer of Prometheus cannot be read: {error}") from error
    if reply.status != "success":
        raise SourceError(f"Prometheus refuses the query: {reply.error}")
    return {name: value for name, value in told.items() if name and math.isfinite(value.number)}


def _value(at: float, number: str) -> MetricValue:
    return MetricValue(float(number), at)
