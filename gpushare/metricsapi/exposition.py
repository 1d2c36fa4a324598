"""From a page of metrics to samples: only those of the metrics that are wanted, in the text format.

The format: https://github.com/prometheus/docs/blob/main/docs/instrumenting/exposition_formats.md.
``monitoring.page`` reads everything, for a person who asks once. Here the pages of all nodes are read for
every round of the HPAs, and reading no more than that is many times faster.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_LABEL: Final = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"n": "\n"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of the page."""

    metric: str
    labels: Mapping[str, str]
    number: float


def samples(page: str, wanted: Collection[str]) -> Iterator[Sample]:
    """The samples of these metrics. Raises ValueError or IndexError for a line that is none."""
    read: dict[str, Mapping[str, str]] = {"": {}}
    for line in page.split("\n"):
        metric, _, rest = line.partition("{" if "{" in line else " ")
        if metric not in wanted:
            continue
        labels, _, number = rest.rpartition("}")
        if labels not in read:
            read[labels] = _labels(labels)
        yield Sample(metric, read[labels], float(number.split()[0]))


def _labels(text: str) -> dict[str, str]:
    return {name: _plain(value) if "\\" in value else value for name, value in _LABEL.findall(text)}


def _plain(value: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), value)
