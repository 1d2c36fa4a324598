"""Series as values: what a function makes of what was read, before anything is rendered."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpushare.monitoring.catalogue import Metric

Point = tuple[tuple[str, ...], float]
"""The values of the labels, in the order of the metric's ``labels``, and the number."""


@dataclass(frozen=True, slots=True)
class Series:
    """All series of one metric at one moment."""

    metric: Metric
    points: Sequence[Point]
