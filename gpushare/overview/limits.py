"""Memory limits of containers, what they used of them, and why a pod has none. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from gpushare.contract import LABEL_MODE, LABEL_NO_ISOLATION, RESOURCE_MEM
from gpushare.model.modes import LIMITING, Mode, mode_of
from gpushare.model.objects import Pod
from gpushare.monitoring import catalogue
from gpushare.monitoring.page import MetricSample
from gpushare.overview.usage import EVERYTHING, UsageFilter, joined

_LABELS: Final = ("namespace", "pod", "container", "node", "card", "uuid")
_METRICS: Final = (
    catalogue.CONTAINER_LIMIT,
    catalogue.CONTAINER_COUNTED,
    catalogue.CONTAINER_PEAK,
    catalogue.CONTAINER_REFUSALS,
    catalogue.CONTAINER_REFUSED,
    catalogue.CONTAINER_NEEDED,
    catalogue.CONTAINER_USED,
    catalogue.CONTAINER_UNCOUNTED,
)
"""In the order of the numbers of ``ContainerLimit``."""
NO_SERIES: Final = (
    "the exporter of node {node} reports no limit: its containers have not started yet, or started before "
    "isolation was installed on the node, or the node agent runs without isolation"
)
"""Why a pod has no limit that should have one."""


class ContainerLimit(Struct, frozen=True, rename="camel"):
    """A container with a limit on one GPU; unknown numbers are None.

    ``card`` is the index of the GPU; in documents it is ``gpu``. ``used`` and ``peak`` are counted by the
    isolation library. ``largest_refused`` is the largest size of its refusals, and ``needed`` the smallest
    limit that admits each of them at its moment. ``driver`` is the usage from NVML, and ``uncounted`` is the
    difference.
    """

    namespace: str
    pod: str
    container: str
    node: str
    card: str = field(name="gpu")
    uuid: str
    limit_bytes: int
    used_bytes: int | None
    peak_bytes: int | None
    refusals: int | None
    largest_refused_bytes: int | None
    needed_bytes: int | None
    driver_bytes: int | None
    uncounted_bytes: int | None


def container_limits(
    samples: Iterable[MetricSample], selected: UsageFilter = EVERYTHING
) -> list[ContainerLimit]:
    """Every selected container with a limit, one entry per GPU, sorted; from the exporters' series."""
    rows = joined(samples, _LABELS, _METRICS, selected)
    return [_limit(labels, numbers) for labels, numbers in rows if numbers[0] is not None]


def _limit(labels: tuple[Any, ...], numbers: tuple[float | None, ...]) -> ContainerLimit:
    return ContainerLimit(*labels, *(None if each is None else int(each) for each in numbers))


def why_not(pod: Pod, labels: Mapping[str, str] | None) -> str | None:
    """Why a pod has no limits; None if it should have some.

    ``labels`` are those of its node, None until the pod is bound.
    """
    if not pod.managed:
        return f"it does not request {RESOURCE_MEM}"
    if pod.finished:
        return "it has finished"
    if pod.node is None or labels is None:
        return "it is not bound to a node"
    return _why_not_on(pod.node, labels)


def _why_not_on(node: str, labels: Mapping[str, str]) -> str | None:
    mode, not_sharing = mode_of(labels)
    if not_sharing:
        return f"node {node}: {not_sharing}"
    if labels.get(LABEL_NO_ISOLATION) == "true":
        return f"isolation is disabled on node {node} by its label {LABEL_NO_ISOLATION}=true"
    if mode not in LIMITING:
        advice = f"{LABEL_MODE}={Mode.CGPU} limits new pods"
        return f"node {node} shares without isolation: its mode is {mode}; {advice}"
    return None
