"""Reads limits from the exporters, those of named pods from the exporters of their nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import WireNode, WirePod, any_pod_of
from gpushare.errors import ConfigError, SourceError
from gpushare.model.objects import Pod
from gpushare.overview.exporters import collect_series
from gpushare.overview.limits import NO_SERIES, ContainerLimit, container_limits, why_not
from gpushare.overview.lists import TIMEOUT_S, decoded, named_pods, node_path, pods_path, where
from gpushare.overview.usage import UsageFilter


@dataclass(frozen=True, slots=True)
class LimitsResult:
    """Containers with limits, and for each requested pod without limits one sentence with the reason."""

    container_limits: Sequence[ContainerLimit]
    unlimited: Sequence[str] = ()


async def collect(client: KubeClient, selected: UsageFilter, report: Callable[[str], None]) -> LimitsResult:
    """The limits of the selected containers.

    Raises ConfigError for an unknown pod or without an exporter, SourceError if none answers, ApiError.
    """
    if selected.pod is None:
        return LimitsResult(container_limits(await collect_series(client, selected.node, report), selected))
    pods = await _named(client, selected, selected.pod)
    found: list[ContainerLimit] = []
    unanswered: ConfigError | SourceError | None = None
    for node in sorted({pod.node for pod in pods if pod.node}):
        try:
            found += container_limits(await collect_series(client, node, report), selected)
        except (ConfigError, SourceError) as error:
            unanswered = error
    limited = {(each.namespace, each.pod) for each in found}
    without = [pod for pod in pods if (pod.namespace, pod.name) not in limited]
    return LimitsResult(found, [await _reason(client, pod, unanswered) for pod in without])


async def _reason(client: KubeClient, pod: Pod, unanswered: ConfigError | SourceError | None) -> str:
    """Why the pod has no limits. Raises the error of its exporter if nothing else explains it."""
    reason = why_not(pod, await _labels(client, pod.node) if pod.node else None)
    if reason is None and unanswered:
        raise unanswered
    return f"pod {pod.full_name} has no limits: {reason or NO_SERIES.format(node=pod.node)}"


async def _named(client: KubeClient, selected: UsageFilter, name: str) -> list[Pod]:
    """The pods of that name. Raises ConfigError if there is none."""
    raws = await named_pods(client, name, selected.namespace)
    pods = map(any_pod_of, decoded(raws, WirePod, pods_path(selected.namespace)))
    found = [pod for pod in pods if selected.node in (None, pod.node)]
    if not found:
        on = f" on node {selected.node}" if selected.node else ""
        raise ConfigError(f"there is no pod {name} in {where(selected.namespace)}{on}")
    return found


async def _labels(client: KubeClient, node: str) -> dict[str, str]:
    path = node_path(node)
    [found] = decoded([await client.request("GET", path, timeout_s=TIMEOUT_S)], WireNode, path)
    return found.metadata.labels or {}
