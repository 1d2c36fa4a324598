"""Conversion of queries to PromQL, and of Prometheus' responses to values. Pure.

The query: https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries
"""

import json
import math
import re

import msgspec

from gpushare.errors import SourceError
from gpushare.metricsapi.queries import Combine, MetricQuery, MetricValue, ObjectKind, is_time, name_label
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


def promql(query: MetricQuery) -> str:
    """Return the PromQL query with one series per object, identified by one label."""
    definition = query.definition
    text = _combined(definition.read, query, definition.combine)
    return f"{text} / {_combined(definition.over, query, 'sum')}" if definition.over else text


def _combined(metric: Metric, query: MetricQuery, combine: Combine) -> str:
    label = name_label(metric, query.kind)
    matchers = [
        f"{label}={json.dumps(query.name)}" if query.name else f'{label}!=""',
        *(_matcher(term) for term in query.selector.terms),
    ]
    if query.kind is ObjectKind.PODS:
        matchers.insert(0, f"{name_label(metric, ObjectKind.NAMESPACES)}={json.dumps(query.namespace)}")
    return f"{combine}({metric.name}{{{','.join(matchers)}}}) by ({label})"


def _matcher(term: Term) -> str:
    """Return a matcher; to Prometheus, an absent label is an empty one."""
    if term.values is None:
        return f'{term.key}{"!=" if term.wanted else "="}""'
    sign = "=~" if term.wanted else "!~"
    return f"{term.key}{sign}{json.dumps('|'.join(map(re.escape, sorted(term.values))))}"


def values_of(body: bytes, query: MetricQuery) -> dict[str, MetricValue]:
    """Return values by object name. Raises SourceError for an invalid response."""
    label = name_label(query.definition.read, query.kind)
    try:
        reply = _decode(body)
        found = {each.metric.get(label, ""): _value(*each.value) for each in reply.data.result}
    except (msgspec.DecodeError, ValueError) as error:
        raise SourceError(f"the response of Prometheus cannot be read: {error}") from error
    if reply.status != "success":
        raise SourceError(f"Prometheus rejected the query: {reply.error}")
    return {name: value for name, value in found.items() if name and math.isfinite(value.number)}


def _value(at: float, number: str) -> MetricValue:
    if not is_time(at):
        raise ValueError(f"{at} is not a time")
    return MetricValue(float(number), at)
