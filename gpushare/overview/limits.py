"""Limits of containers from the exporters' series, and why a pod has no limits. Pure.

``limits_query`` reads series and pods, ``tables`` formats the table.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Struct

from gpushare.cli.lib.text_table import ABSENT, Table, mib
from gpushare.contract import LABEL_MODE, LABEL_NO_ISOLATION, RESOURCE_MEM
from gpushare.model.modes import LIMITING, Mode, mode_of
from gpushare.monitoring import catalogue
from gpushare.monitoring.page import MetricSample
from gpushare.overview.node_document import API_VERSION
from gpushare.overview.usage import UsageFilter

KIND: Final = "ContainerLimitList"
_HEADERS: Final = (
    *("NAMESPACE", "POD", "CONTAINER", "NODE", "CARD"),
    *("LIMIT", "USED", "PEAK", "REFUSALS"),
)
_WIDE: Final = ("DRIVER", "UNCOUNTED", "UUID")


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
    limit_bytes: int | None = None
    used_bytes: int | None = None
    peak_bytes: int | None = None
    refusals: int | None = None
    driver_bytes: int | None = None
    uncounted_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class NamedPod:
    """A pod by name; ``requests_units`` is whether it requests GPU memory, ``node`` is empty until bound."""

    namespace: str
    name: str
    node: str
    requests_units: bool
    finished: bool

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


_KEY: Final = ("namespace", "pod", "container", "node", "card", "uuid")
_NUMBERS: Final = {
    str(catalogue.CONTAINER_LIMIT): "limit_bytes",
    str(catalogue.CONTAINER_COUNTED): "used_bytes",
    str(catalogue.CONTAINER_PEAK): "peak_bytes",
    str(catalogue.CONTAINER_REFUSALS): "refusals",
    str(catalogue.CONTAINER_USED): "driver_bytes",
    str(catalogue.CONTAINER_UNCOUNTED): "uncounted_bytes",
}


def container_limits(samples: Iterable[MetricSample], usage_filter: UsageFilter) -> list[ContainerLimit]:
    """Every selected container with a limit, one entry per GPU, sorted; only finite numbers."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for sample in samples:
        name = _NUMBERS.get(sample.metric)
        if name and math.isfinite(sample.number) and usage_filter.matches(sample.labels):
            key = tuple(sample.labels.get(label, "") for label in _KEY)
            found.setdefault(key, {})[name] = int(sample.number)
    limited = ((key, numbers) for key, numbers in sorted(found.items()) if "limit_bytes" in numbers)
    return [ContainerLimit(*key, **numbers) for key, numbers in limited]


def table(found: Sequence[ContainerLimit], *, wide: bool) -> Table:
    """For a terminal; ``wide`` adds the usage from the driver and the UUID of the GPU."""
    return Table((*_HEADERS, *(_WIDE if wide else ())), tuple(_row(each, wide=wide) for each in found))


def document(found: Sequence[ContainerLimit]) -> dict[str, Any]:
    """For programs: amounts in bytes, unknown values are null."""
    return {"apiVersion": API_VERSION, "kind": KIND, "items": msgspec.to_builtins(found)}


def why_not(pod: NamedPod, labels: Mapping[str, str] | None) -> str | None:
    """Why a pod has no limits, from the pod and the labels of its node; None if it should have limits.

    ``labels`` are those of its node, None until the pod is bound.
    """
    if not pod.requests_units:
        return f"it does not request {RESOURCE_MEM}"
    if pod.finished:
        return "it has finished"
    return "it is not bound to a node" if labels is None else _why_not_on(pod.node, labels)


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


def _row(limit: ContainerLimit, *, wide: bool) -> tuple[str, ...]:
    refusals = ABSENT if limit.refusals is None else str(limit.refusals)
    amounts = map(mib, (limit.limit_bytes, limit.used_bytes, limit.peak_bytes))
    row = (limit.namespace, limit.pod, limit.container, limit.node, limit.card, *amounts, refusals)
    return (*row, mib(limit.driver_bytes), mib(limit.uncounted_bytes), limit.uuid) if wide else row
