"""What Prometheus has recorded of the cluster and its namespaces: lines over a time, and hours.

The series are those of the recording rules, which are few however large the cluster is. ``kubectl gpushare
report`` has the account by workload, from the series of containers. What does not belong here: who may ask,
and for how long an answer is kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.prometheus import PrometheusClient, matchers
from gpushare.contract import RESOURCE_MEM
from gpushare.errors import ApiError, InvalidRequest
from gpushare.model.quantity import parse_quantity
from gpushare.monitoring import rules
from gpushare.overview.documents import document, time_text
from gpushare.overview.hours import GIB, HOUR_S, Hours, Rounded, Span, numbers, rounded
from gpushare.overview.lists import decoded, if_allowed, listed

QUOTAS: Final = "/api/v1/resourcequotas"
_QUOTA_KEY: Final = f"requests.{RESOURCE_MEM}"
_LINES: Final = {
    "memoryBytes": f"sum(avg_over_time({rules.CLUSTER_MEMORY}{{0}}))",
    "allocatedBytes": f"sum(avg_over_time({rules.CLUSTER_ALLOCATED}{{0}}))",
    "usedBytes": f"sum(avg_over_time({rules.CLUSTER_USED}{{0}}))",
    "utilizationRatio": f"avg(avg_over_time({rules.CLUSTER_COMPUTE}{{0}}))",
}
"""Name in the document → query; ``{0}`` is the selection with its range."""


class Range(NamedTuple):
    """A time until now, by its name, in seconds, and the steps of its lines."""

    name: str
    seconds: int
    step_s: int

    def span(self, now: float) -> Span:
        """Its steps; the last one has begun at most one step ago."""
        return Span(now // self.step_s * self.step_s, self.step_s, self.seconds // self.step_s)


RANGES: Final = {
    each.name: each
    for each in (
        Range("6h", 6 * HOUR_S, 60),
        Range("24h", 24 * HOUR_S, 300),
        Range("7d", 7 * 24 * HOUR_S, 1800),
        Range("30d", 30 * 24 * HOUR_S, 2 * HOUR_S),
    )
}
_HOURS_STEP_S: Final = 300
"""Of sums, whatever the range is: as in the dashboard of tenants."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Units of a ResourceQuota: the limit, and what the pods of the namespace request."""

    hard: int
    used: int


class _Meta(msgspec.Struct):
    namespace: str = ""


class _Amounts(msgspec.Struct):
    hard: dict[str, Any] = msgspec.field(default_factory=dict)
    used: dict[str, Any] = msgspec.field(default_factory=dict)


class _ResourceQuota(msgspec.Struct):
    metadata: _Meta
    status: _Amounts = msgspec.field(default_factory=_Amounts)


async def history(prometheus: PrometheusClient, span: Span, asked: Range, cluster: str) -> dict[str, Any]:
    """The lines of the whole cluster: a value for each step, None if it is unknown. Raises SourceError."""
    selected = f"{matchers({'cluster': cluster})}[{span.step_s}s]"
    found = {
        name: await prometheus.line(query.format(selected), span.start + span.step_s, span.step_s)
        for name, query in _LINES.items()
    }
    return _document("GpuHistory", asked, span) | {
        name: [values.get(step) for step in range(span.steps)] for name, values in found.items()
    }


async def tenants(
    prometheus: PrometheusClient, client: KubeClient, asked: Range, now: float, cluster: str
) -> dict[str, Any]:
    """Hours and quotas by namespace. Raises SourceError and ApiError."""
    span = Range(asked.name, asked.seconds, _HOURS_STEP_S).span(now)
    amounts = await _amounts(prometheus, span, cluster)
    found = await if_allowed(listed(client, QUOTAS))
    frame = _document("GpuTenants", asked, span)
    if isinstance(found, ApiError):
        return frame | tenants_content(amounts, None) | {"notes": [f"quotas are unknown: {found}"]}
    quotas = quotas_of(decoded(found, _ResourceQuota, QUOTAS))
    return frame | tenants_content(amounts, quotas) | {"notes": []}


async def _amounts(prometheus: PrometheusClient, span: Span, cluster: str) -> dict[str, Hours]:
    selected, step = matchers({"cluster": cluster}), Fraction(span.step_s, HOUR_S)
    sums: list[dict[str, Fraction]] = []
    for rule in (
        rules.NAMESPACE_GPUS,
        rules.NAMESPACE_COMPUTE,
        rules.NAMESPACE_ALLOCATED,
        rules.NAMESPACE_USED,
    ):
        query = f"sum by (namespace) (sum_over_time({rule}{selected}{span.text}))"
        sums.append({each.labels.get("namespace", ""): each.value for each in await prometheus.ask(query)})
    names = sorted({name for each in sums for name in each})
    return {name: _hours([each.get(name, Fraction(0)) * step for each in sums]) for name in names}


def _hours(amounts: Sequence[Fraction]) -> Hours:
    gpu, used_gpu, memory, used_memory = amounts
    return Hours(gpu, used_gpu, memory / GIB, used_memory / GIB)


def tenants_content(amounts: Mapping[str, Hours], known: Mapping[str, Quota] | None) -> dict[str, Any]:
    """The rows, those with the most GPU-hours first, and their sum. A namespace with a quota has a row.

    ``known`` are the quotas, None if they could not be read.
    """
    quotas = known or {}
    names = [*amounts, *(name for name in quotas if name not in amounts)]
    found, total = rounded([amounts.get(name, Hours()) for name in names])
    rows = sorted(zip(names, found, strict=True), key=lambda row: (-row[1].allocated_gpu, row[0]))
    items = [_item(name, hours, quotas) for name, hours in rows]
    return {"items": items, "total": _figures(total), "quotasKnown": known is not None}


def _item(name: str, hours: Rounded, quotas: Mapping[str, Quota]) -> dict[str, Any]:
    return {"namespace": name, **_figures(hours), "quota": _shown(quotas.get(name))}


def _figures(hours: Rounded) -> dict[str, float | None]:
    idle = 1 - hours.used_gib / hours.allocated_gib if hours.allocated_gib else None
    return {**numbers(hours), "idleRatio": None if idle is None else round(idle, 4)}


def _shown(quota: Quota | None) -> dict[str, int] | None:
    return {"hardUnits": quota.hard, "usedUnits": quota.used} if quota else None


def quotas_of(found: Iterable[_ResourceQuota]) -> dict[str, Quota]:
    """The quota of each namespace with one; of several, the lowest. Unreadable ones are left out."""
    quotas: dict[str, Quota] = {}
    for each in found:
        name, quota = each.metadata.namespace, _quota(each.status)
        if quota and (name not in quotas or quota.hard < quotas[name].hard):
            quotas[name] = quota
    return quotas


def _quota(status: _Amounts) -> Quota | None:
    try:
        return Quota(parse_quantity(status.hard[_QUOTA_KEY]), parse_quantity(status.used.get(_QUOTA_KEY, 0)))
    except (KeyError, InvalidRequest):
        return None


def _document(kind: str, asked: Range, span: Span) -> dict[str, Any]:
    return document(
        kind, range=asked.name, start=time_text(span.start), end=time_text(span.end), stepSeconds=span.step_s
    )
