"""Reads limits from the exporters, those of named pods from the exporters of their nodes.

With the rights of one namespace, from the usage API.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import WireNode
from gpushare.errors import ConfigError, SourceError
from gpushare.model.objects import Pod
from gpushare.model.usage_documents import GpuPod
from gpushare.overview import lists
from gpushare.overview.exporters import collect_series
from gpushare.overview.limits import NO_SERIES, ContainerLimit, container_limits, why_not
from gpushare.overview.selected_pods import pods_named, running_pods
from gpushare.overview.usage import UsageFilter
from gpushare.overview.usage_api import series_of, usage_of, with_rights_of_namespace
from gpushare.overview.words import counted, listed

Reasons = Mapping[str, str]
"""Why pods have no limits, by their full names."""


@dataclass(frozen=True, slots=True)
class LimitsResult:
    """Containers with limits, and a sentence for each reason why pods have none."""

    container_limits: Sequence[ContainerLimit]
    unlimited: Sequence[str] = ()


async def collect(
    client: KubeClient, selected: UsageFilter, labels: str, report: Callable[[str], None]
) -> LimitsResult:
    """The limits of the selected containers.

    Raises ConfigError for an unknown pod or without an exporter, SourceError if none answers, ApiError.
    """
    if selected.pod:
        pods = await pods_named(client, selected, selected.pod)
        everywhere = _of_named(client, selected, pods, report)
    else:
        pods = [pod for pod in await running_pods(client, selected, labels) if pod.managed]
        everywhere = _of_all(client, selected, pods, labels, report)
    if (namespace := selected.namespace) is None:
        return await everywhere

    async def own() -> LimitsResult:
        found = await usage_of(client, namespace)
        return _in_namespace(found.items, selected, pods, labels)

    return await with_rights_of_namespace(everywhere, own, namespace)


async def _of_named(
    client: KubeClient, selected: UsageFilter, pods: Sequence[Pod], report: Callable[[str], None]
) -> LimitsResult:
    """Those of pods of one name, from the exporters of their nodes."""
    found: list[ContainerLimit] = []
    unanswered: ConfigError | SourceError | None = None
    for node in sorted({pod.node for pod in pods if pod.node}):
        try:
            found += container_limits(await collect_series(client, node, report), selected)
        except (ConfigError, SourceError) as error:
            unanswered = error
    without = _without(pods, found)
    known = {pod.full_name: why_not(pod, await _labels(client, pod.node)) for pod in without}
    if unanswered and None in known.values():
        raise unanswered
    return LimitsResult(found, _sentences(without, _filled(without, known)))


async def _of_all(
    client: KubeClient,
    selected: UsageFilter,
    pods: Sequence[Pod],
    labels: str,
    report: Callable[[str], None],
) -> LimitsResult:
    found = container_limits(await collect_series(client, selected.node, report), selected)
    found = _of_pods(found, pods) if labels else found
    without = _without(pods, found)
    nodes = await _labels_by_node(client) if without else {}
    known = {pod.full_name: why_not(pod, nodes.get(pod.node or "", {})) for pod in without}
    return LimitsResult(found, _sentences(without, _filled(without, known)))


def _in_namespace(
    documents: Iterable[GpuPod], selected: UsageFilter, pods: Sequence[Pod], labels: str
) -> LimitsResult:
    """From the documents of the usage API, which say themselves why a container has no limit."""
    documents = list(documents)
    found = container_limits(series_of(documents), selected)
    found = _of_pods(found, pods) if labels else found
    without = _without(pods, found)
    served = {f"{each.metadata.namespace}/{each.metadata.name}": _no_limit(each) for each in documents}
    known = {pod.full_name: served.get(pod.full_name) or _without_node(pod) for pod in without}
    return LimitsResult(found, _sentences(without, _filled(without, known)))


def _no_limit(pod: GpuPod) -> str | None:
    gpus = (gpu for container in pod.containers for gpu in container.gpus)
    return next((gpu.no_limit for gpu in gpus if gpu.no_limit), None)


def _without_node(pod: Pod) -> str | None:
    """A reason that does not depend on the node."""
    return None if pod.node and pod.managed and not pod.finished else why_not(pod, None)


def _of_pods(found: Iterable[ContainerLimit], pods: Iterable[Pod]) -> list[ContainerLimit]:
    names = {(pod.namespace, pod.name) for pod in pods}
    return [each for each in found if (each.namespace, each.pod) in names]


def _without(pods: Iterable[Pod], found: Iterable[ContainerLimit]) -> list[Pod]:
    limited = {(each.namespace, each.pod) for each in found}
    return [pod for pod in pods if (pod.namespace, pod.name) not in limited]


def _filled(pods: Iterable[Pod], known: Mapping[str, str | None]) -> Reasons:
    return {pod.full_name: known[pod.full_name] or NO_SERIES.format(node=pod.node) for pod in pods}


def _sentences(pods: Iterable[Pod], reasons: Reasons) -> list[str]:
    """One sentence for each reason, with the first pods that have it."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for pod in pods:
        groups[reasons[pod.full_name]].append(pod.full_name)
    return [
        f"pod {names[0]} has no limits: {reason}"
        if len(names) == 1
        else f"{counted(len(names), 'pod')} have no limits ({listed(names)}): {reason}"
        for reason, names in groups.items()
    ]


async def _labels(client: KubeClient, node: str | None) -> dict[str, str] | None:
    if node is None:
        return None
    path = lists.node_path(node)
    body = await client.request("GET", path, timeout_s=lists.TIMEOUT_S)
    [found] = lists.decoded([body], WireNode, path)
    return found.metadata.labels or {}


async def _labels_by_node(client: KubeClient) -> dict[str, dict[str, str]]:
    nodes = lists.decoded(await lists.listed(client, lists.NODES), WireNode, lists.NODES)
    return {each.metadata.name: each.metadata.labels or {} for each in nodes}
