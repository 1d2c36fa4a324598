"""Sums of the exporters' series over a time from Prometheus, and the workloads of pods.

The steps are at multiples of the step, none of them at an end of the time: versions of Prometheus differ in
whether the ends belong to it. Series that several scrapes have are counted once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.prometheus import PrometheusClient, PromSeries, connected, matchers
from gpushare.cli.report.accounting import GpuKey, GpuSums, Share, UsageFacts
from gpushare.errors import ApiError, ConfigError
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric
from gpushare.overview.hours import Span
from gpushare.overview.lists import decoded, if_allowed, listed, pods_path
from gpushare.overview.objects import ClusterPod, PodOwner

_MOST_STEPS: Final = 10_000
_SHORTEST_STEP_S: Final = 60
_GPU: Final = ("node", "card", "uuid")
_CONTAINER: Final = ("namespace", "pod", "container", *_GPU)


def span_of(now: float, since_s: int) -> Span:
    """The time until now. Steps take a minute, or more if there were too many."""
    step_s = max(_SHORTEST_STEP_S, -(-since_s // _MOST_STEPS))
    return Span((now // step_s) * step_s - step_s / 2, step_s, max(1, since_s // step_s))


async def collect(
    client: KubeClient, namespace: str | None, url: str, span: Span, cluster: str | None
) -> UsageFacts:
    """The facts of one namespace, or of all. Raises ApiError, SourceError, and ConfigError without series."""
    async with connected(url, span.end) as prometheus:
        on_gpus = _Sums(prometheus, span, matchers({"cluster": cluster}))
        gpus = await _gpus(on_gpus)
        if not gpus:
            raise ConfigError(
                f"{url} has no {catalogue.CARD_MEMORY} in this time; let it scrape the exporters"
            )
        of_containers = _Sums(prometheus, span, matchers({"cluster": cluster, "namespace": namespace}))
        shares, notes = await _shares(of_containers, gpus)
        notes += await _silent_sources(on_gpus)
        owners = await _recorded_owners(prometheus, span, namespace, cluster)
    owners |= await _living_owners(client, namespace, notes)
    unknown = len({(each.namespace, each.pod) for each in shares} - set(owners))
    if unknown:
        notes.append(
            f"{unknown} pods are gone and have the owner (unknown); Prometheus has their owners if it "
            "scrapes kube-state-metrics"
        )
    return UsageFacts(gpus, shares, owners, notes)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums of metrics over the steps."""

    prometheus: PrometheusClient
    span: Span
    selected: str

    async def of(self, metric: Metric, by: tuple[str, ...]) -> dict[tuple[str, ...], Fraction]:
        """The sum of each series, by the values of labels."""
        return await self.ask(f"sum_over_time({self._once(metric, by)}{self.span.text})", by)

    async def points(self, metric: Metric, by: tuple[str, ...]) -> dict[tuple[str, ...], Fraction]:
        """The number of steps with a value."""
        return await self.ask(f"count_over_time({self._once(metric, by)}{self.span.text})", by)

    async def ask(self, expr: str, by: tuple[str, ...]) -> dict[tuple[str, ...], Fraction]:
        """The values of a query by labels."""
        return by_labels(await self.prometheus.ask(expr), by)

    def _once(self, metric: Metric, by: tuple[str, ...]) -> str:
        return f"(max by ({', '.join(by)}) ({metric}{self.selected}))"


def by_labels(series: Iterable[PromSeries], by: tuple[str, ...]) -> dict[tuple[str, ...], Fraction]:
    """Values by the values of labels; an absent label is empty."""
    return {tuple(each.labels.get(label, "") for label in by): each.value for each in series}


async def _gpus(sums: _Sums) -> dict[GpuKey, GpuSums]:
    memory = await sums.of(catalogue.CARD_MEMORY, _GPU)
    used = await sums.of(catalogue.CARD_USED, _GPU)
    points = await sums.points(catalogue.CARD_MEMORY, _GPU)
    return {
        GpuKey(*key): GpuSums(amount, used.get(key, Fraction(0)), int(points[key]))
        for key, amount in memory.items()
        if amount and key in points
    }


async def _shares(sums: _Sums, gpus: Mapping[GpuKey, GpuSums]) -> tuple[list[Share], list[str]]:
    allocated, used, utilization = [
        await sums.of(metric, _CONTAINER)
        for metric in (
            catalogue.CONTAINER_ALLOCATED,
            catalogue.CONTAINER_USED,
            catalogue.CONTAINER_UTILIZATION,
        )
    ]
    none = Fraction(0)
    found = [
        Share(
            *(key[0], key[1], GpuKey(*key[3:])),
            *(allocated.get(key, none), used.get(key, none), utilization.get(key, none)),
        )
        for key in sorted({*allocated, *used, *utilization})
    ]
    lost = sorted({each.gpu for each in found} - set(gpus))
    notes = [f"GPU {gpu.card} of node {gpu.node} has no memory size and is left out" for gpu in lost]
    return [each for each in found if each.gpu in gpus], notes


async def _silent_sources(sums: _Sums) -> list[str]:
    """Sources of exporters that did not respond: containers may be missing while the GPU is not."""
    by = ("node", "instance", "source")
    silent = f"(max by ({', '.join(by)}) ({catalogue.SOURCE_UP}{sums.selected}) == 0)"
    found = await sums.ask(f"count_over_time({silent}{sums.span.text})", by)
    return [
        f"source {source} of the exporter {node or instance} did not respond for "
        f"{float(points * sums.span.step_s / 3600):.2f} h; its values are missing in that time"
        for (node, instance, source), points in sorted(found.items())
    ]


async def _recorded_owners(
    prometheus: PrometheusClient, span: Span, namespace: str | None, cluster: str | None
) -> dict[tuple[str, str], PodOwner]:
    """From the series of kube-state-metrics, if Prometheus has them."""
    window = f"[{span.step_s * span.steps}s]"
    selected = matchers({"cluster": cluster, "namespace": namespace, "owner_is_controller": "true"})
    by_pod = ("namespace", "pod", "owner_kind", "owner_name")
    by_set = ("namespace", "replicaset", "owner_kind", "owner_name")
    pods, sets = [
        by_labels(
            await prometheus.ask(f"max by ({', '.join(by)}) (max_over_time({name}{selected}{window}))"), by
        )
        for name, by in (("kube_pod_owner", by_pod), ("kube_replicaset_owner", by_set))
    ]
    deployments = {(space, name): PodOwner(kind, owner) for space, name, kind, owner in sets}
    found = {(space, pod): (kind, owner) for space, pod, kind, owner in pods}
    return {
        (space, pod): deployments.get((space, owner), PodOwner(kind, owner))
        if kind == "ReplicaSet"
        else PodOwner(kind, owner)
        for (space, pod), (kind, owner) in found.items()
    }


async def _living_owners(
    client: KubeClient, namespace: str | None, notes: list[str]
) -> dict[tuple[str, str], PodOwner]:
    """The owners of bound pods; without the right to list them, none and a note."""
    path = pods_path(namespace)
    raws = await if_allowed(listed(client, path, {"fieldSelector": "spec.nodeName!="}))
    if isinstance(raws, ApiError):
        notes.append(f"the owners of pods come from Prometheus alone: {raws}")
        return {}
    return {
        (each.metadata.namespace, each.metadata.name): each.owner for each in decoded(raws, ClusterPod, path)
    }
