"""Parser of Prometheus' text format that reads only selected series.

The format: https://github.com/prometheus/docs/blob/main/docs/instrumenting/exposition_formats.md.
prometheus_client's parser always reads all series and takes several times as long.
Fetching pages and interpreting them does not belong here.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gpushare.errors import InvalidRequest

_LABEL: Final = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"n": "\n"}


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One sample line of the page."""

    metric: str
    labels: Mapping[str, str]
    number: float


def samples(page: str, wanted: Collection[str]) -> Iterator[MetricSample]:
    """Yield the samples of these series names. Raises InvalidRequest for a malformed line."""
    read: dict[str, Mapping[str, str]] = {"": {}}
    for line in page.split("\n"):
        metric, _, rest = line.partition("{" if "{" in line else " ")
        if metric not in wanted:
            continue
        labels, _, number = rest.rpartition("}")
        if labels not in read:
            read[labels] = _labels(labels)
        yield MetricSample(metric, read[labels], _number(number, line))


def _number(text: str, line: str) -> float:
    """Return the value; an optional timestamp follows it."""
    try:
        return float(text.split(maxsplit=1)[0])
    except (ValueError, IndexError) as error:
        raise InvalidRequest(f"not a metrics page: {line!r}") from error


def _labels(text: str) -> dict[str, str]:
    return {name: _plain(value) if "\\" in value else value for name, value in _LABEL.findall(text)}


def _plain(value: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), value)
