"""Queries to Prometheus, at one moment and over a range.

The API: https://prometheus.io/docs/prometheus/latest/querying/api/#expression-queries
"""

import json
import math
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import msgspec

from gpushare.adapters.http_client import HttpClient
from gpushare.errors import SourceError

_TIMEOUT_S: Final = 60.0


class _Found(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str] = (0.0, "NaN")
    values: list[tuple[float, str]] = msgspec.field(default_factory=list)


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
        found = await self._found("query", {"query": expr, "time": f"{self.at:.3f}"})
        with _readable(self.url):
            return [
                PromSeries(each.metric, Fraction(each.value[1]))
                for each in found
                if math.isfinite(float(each.value[1]))
            ]

    async def line(self, expr: str, start: float, step_s: int) -> dict[int, float]:
        """The values of a query of one series until the moment, by their number of steps after ``start``.

        Steps without a finite value are left out. Raises SourceError.
        """
        times = {"start": f"{start:.3f}", "end": f"{self.at:.3f}", "step": str(step_s)}
        found = await self._found("query_range", {"query": expr, **times})
        with _readable(self.url):
            return {
                round((at - start) / step_s): value
                for each in found
                for at, text in each.values
                if math.isfinite(value := float(text))
            }

    async def _found(self, path: str, form: Mapping[str, str]) -> list[_Found]:
        body = await self.pages.post(f"{self.url}/api/v1/{path}", form)
        with _readable(self.url):
            return _decode(body).data.result


@contextmanager
def _readable(url: str) -> Iterator[None]:
    try:
        yield
    except (msgspec.DecodeError, ValueError) as error:
        raise SourceError(f"{url}: the response of Prometheus cannot be read: {error}") from error


@asynccontextmanager
async def connected(url: str, at: float, timeout_s: float = _TIMEOUT_S) -> AsyncIterator[PrometheusClient]:
    """Queries at that moment, through the proxy of the environment."""
    async with HttpClient(timeout_s=timeout_s, environ=os.environ) as pages:
        yield PrometheusClient(pages, url.rstrip("/"), at)


def matchers(labels: Mapping[str, str | None]) -> str:
    """Matchers of a selector, such as ``{namespace="ml"}``; None matches everything."""
    return "{" + ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items() if value) + "}"
