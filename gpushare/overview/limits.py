"""Memory limits of containers, and what they used of them, from the exporters' series. Pure."""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from gpushare.monitoring import catalogue
from gpushare.monitoring.page import MetricSample
from gpushare.overview.usage import EVERYTHING, UsageFilter, joined

_LABELS: Final = ("namespace", "pod", "container", "node", "card", "uuid")
_METRICS: Final = (
    catalogue.CONTAINER_LIMIT,
    catalogue.CONTAINER_COUNTED,
    catalogue.CONTAINER_PEAK,
    catalogue.CONTAINER_REFUSALS,
    catalogue.CONTAINER_USED,
    catalogue.CONTAINER_UNCOUNTED,
)
"""In the order of the numbers of ``ContainerLimit``."""


class ContainerLimit(Struct, frozen=True, rename="camel"):
    """A container with a limit on one GPU; unknown numbers are None.

    ``used`` and ``peak`` are counted by the isolation library, ``driver`` is the usage from NVML, and
    ``uncounted`` is the difference.
    """

    namespace: str
    pod: str
    container: str
    node: str
    card: str
    uuid: str
    limit_bytes: int
    used_bytes: int | None
    peak_bytes: int | None
    refusals: int | None
    driver_bytes: int | None
    uncounted_bytes: int | None


def container_limits(
    samples: Iterable[MetricSample], selected: UsageFilter = EVERYTHING
) -> list[ContainerLimit]:
    """Every selected container with a limit, one entry per GPU, sorted."""
    rows = joined(samples, _LABELS, _METRICS, selected)
    return [_limit(labels, numbers) for labels, numbers in rows if numbers[0] is not None]


def _limit(labels: tuple[Any, ...], numbers: tuple[float | None, ...]) -> ContainerLimit:
    return ContainerLimit(*labels, *(None if each is None else int(each) for each in numbers))
