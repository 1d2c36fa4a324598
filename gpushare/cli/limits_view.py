"""What isolation holds containers to, made of the exporters' series, and why a pod is not held. Pure.

Where series and pods come from is ``held_pods``, how a table looks is ``tables``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Struct

from gpushare.cli.document import API_VERSION
from gpushare.cli.usage_tables import Table, UsageFilter
from gpushare.contract import LABEL_MODE, LABEL_NO_ISOLATION, RESOURCE_MEM
from gpushare.model.modes import HELD, Mode, mode_of
from gpushare.monitoring import catalogue
from gpushare.monitoring.page import MetricSample

KIND: Final = "ContainerLimitList"
_MIB: Final = 2**20
_ABSENT: Final = "-"
_HEADERS: Final = (
    *("NAMESPACE", "POD", "CONTAINER", "NODE", "CARD"),
    *("LIMIT", "USED", "PEAK", "REFUSALS"),
)
_WIDE: Final = ("DRIVER", "UNCOUNTED", "UUID")


class ContainerLimit(Struct, frozen=True, rename="camel"):
    """A container on a card that isolation holds it on; what is not known is None.

    ``used`` and ``peak`` are what the library counts, ``driver`` is what NVML says, ``uncounted`` by how
    much that is more.
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
    """A pod that was asked for: whether it ``asks`` for units of a card; ``node`` is empty without one."""

    namespace: str
    name: str
    node: str
    asks: bool
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


def container_limits(told: Iterable[MetricSample], wanted: UsageFilter) -> list[ContainerLimit]:
    """Every container that is wanted and held, by each of its cards, sorted."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for sample in told:
        if sample.metric in _NUMBERS and wanted.has(sample.labels):
            key = tuple(sample.labels.get(label, "") for label in _KEY)
            found.setdefault(key, {})[_NUMBERS[sample.metric]] = int(sample.number)
    limited = ((key, numbers) for key, numbers in sorted(found.items()) if "limit_bytes" in numbers)
    return [ContainerLimit(*key, **numbers) for key, numbers in limited]


def table(found: Sequence[ContainerLimit], *, wide: bool) -> Table:
    """For people; ``wide`` has what the driver says, and the card's UUID."""
    return Table((*_HEADERS, *(_WIDE if wide else ())), tuple(_row(each, wide=wide) for each in found))


def document(found: Sequence[ContainerLimit]) -> dict[str, Any]:
    """For programs: amounts in bytes, absent facts are null."""
    return {"apiVersion": API_VERSION, "kind": KIND, "items": msgspec.to_builtins(found)}


def why_not(pod: NamedPod, labels: Mapping[str, str] | None) -> str | None:
    """Why a pod is not held, by what is known without an exporter; None where it ought to be.

    ``labels`` are those of its node, None while it has none.
    """
    if not pod.asks:
        return f"it asks for no {RESOURCE_MEM}"
    if pod.finished:
        return "it has ended"
    return "it has no node" if labels is None else _why_not_on(pod.node, labels)


def _why_not_on(node: str, labels: Mapping[str, str]) -> str | None:
    mode, closed = mode_of(labels)
    if closed:
        return f"node {node}: {closed}"
    if labels.get(LABEL_NO_ISOLATION) == "true":
        return f"isolation is switched off on node {node} by its label {LABEL_NO_ISOLATION}=true"
    if mode not in HELD:
        would = f"{LABEL_MODE}={Mode.CGPU} would hold new pods"
        return f"node {node} shares without isolation: its mode is {mode}, and {would}"
    return None


def _row(hold: ContainerLimit, *, wide: bool) -> tuple[str, ...]:
    refusals = _ABSENT if hold.refusals is None else str(hold.refusals)
    amounts = map(_mib, (hold.limit_bytes, hold.used_bytes, hold.peak_bytes))
    row = (hold.namespace, hold.pod, hold.container, hold.node, hold.card, *amounts, refusals)
    return (*row, _mib(hold.driver_bytes), _mib(hold.uncounted_bytes), hold.uuid) if wide else row


def _mib(value: int | None) -> str:
    return _ABSENT if value is None else f"{value / _MIB:.0f} MiB"
