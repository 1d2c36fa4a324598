"""Instant queries to Prometheus.

The API: https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries
"""

import json
import math
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import msgspec

from gpushare.adapters.http_client import HttpClient
from gpushare.errors import SourceError

_TIMEOUT_S: Final = 60.0


class _Found(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct):
    result: list[_Found] = msgspec.field(default_factory=list)


class _Reply(msgspec.Struct):
    data: _Data = msgspec.field(default_factory=_Data)


@dataclass(frozen=True, slots=True)
class PromSeries:
    """Labels, and the exact value that Prometheus wrote."""

    labels: Mapping[str, str]
    value: Fraction


_decode = msgspec.json.Decoder(_Reply).decode


@dataclass(frozen=True, slots=True)
class PrometheusClient:
    """Queries at one moment, in seconds since 1970."""

    pages: HttpClient
    url: str
    at: float

    async def ask(self, expr: str) -> list[PromSeries]:
        """The series of a query; values that are not finite are left out. Raises SourceError."""
        body = await self.pages.post(f"{self.url}/api/v1/query", {"query": expr, "time": f"{self.at:.3f}"})
        try:
            found = [(each.metric, each.value[1]) for each in _decode(body).data.result]
            return [
                PromSeries(labels, Fraction(text)) for labels, text in found if math.isfinite(float(text))
            ]
        except (msgspec.DecodeError, ValueError) as error:
            raise SourceError(f"{self.url}: the response of Prometheus cannot be read: {error}") from error


@asynccontextmanager
async def connected(url: str, at: float) -> AsyncIterator[PrometheusClient]:
    """Queries at that moment, through the proxy of the environment."""
    async with HttpClient(timeout_s=_TIMEOUT_S, environ=os.environ) as pages:
        yield PrometheusClient(pages, url.rstrip("/"), at)


def matchers(labels: Mapping[str, str | None]) -> str:
    """Matchers of a selector, such as ``{namespace="ml"}``; None matches everything."""
    return "{" + ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items() if value) + "}"
