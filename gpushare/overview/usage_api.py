"""Reads the usage API: usage, limits, explanations and free units with the rights of one namespace.

The API server forwards its requests to the metrics API (``gpushare.metricsapi``). The documents are those of
``gpushare.model.usage_documents``.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.errors import ApiError, ConfigError
from gpushare.model.usage_documents import (
    USAGE_VERSION,
    ContainerGpu,
    GpuFitList,
    GpuPod,
    GpuPodList,
)
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.page import MetricSample
from gpushare.overview.explain.answer import Answer
from gpushare.overview.exporters import collect_series
from gpushare.overview.lists import TIMEOUT_S, if_allowed
from gpushare.overview.usage import UsageFilter

T = TypeVar("T")

_DOES_NOT_SERVE: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.SERVICE_UNAVAILABLE)
"""Without the role that is deployed with the API, and of an API whose service does not answer."""
_FIELDS: Final[dict[Metric, Callable[[ContainerGpu], float | None]]] = {
    catalogue.CONTAINER_ALLOCATED: lambda gpu: gpu.allocated_bytes,
    catalogue.CONTAINER_USED: lambda gpu: gpu.used_bytes,
    catalogue.CONTAINER_UTILIZATION: lambda gpu: gpu.utilization,
    catalogue.CONTAINER_LIMIT: lambda gpu: gpu.limit_bytes,
    catalogue.CONTAINER_COUNTED: lambda gpu: gpu.counted_bytes,
    catalogue.CONTAINER_PEAK: lambda gpu: gpu.peak_bytes,
    catalogue.CONTAINER_REFUSALS: lambda gpu: gpu.refusals,
    catalogue.CONTAINER_REFUSED: lambda gpu: gpu.largest_refused_bytes,
    catalogue.CONTAINER_NEEDED: lambda gpu: gpu.needed_bytes,
    catalogue.CARD_MEMORY: lambda gpu: gpu.gpu_memory_bytes,
    catalogue.CONTAINER_UNCOUNTED: lambda gpu: gpu.uncounted_bytes,
}


async def if_served(answer: Awaitable[T]) -> T | ApiError:
    """The answer of the usage API, or the error of a cluster or an account without it.

    Raises the other ApiErrors, such as that of a pod that does not exist.
    """
    try:
        return await answer
    except ApiError as error:
        # Of a group that is not registered, the API server sends a page without a reason.
        unregistered = error.status == HTTPStatus.NOT_FOUND and not error.reason
        if error.status in _DOES_NOT_SERVE or unregistered:
            return error
        raise


async def with_rights_of_namespace(
    everywhere: Awaitable[T], own: Callable[[], Awaitable[T]], namespace: str
) -> T:
    """The answer from the whole cluster if this account may read it, else that of the usage API.

    Raises ConfigError if it gets neither.
    """
    found = await if_allowed(everywhere)
    if not isinstance(found, ApiError):
        return found
    served = await if_served(own())
    if isinstance(served, ApiError):
        raise ConfigError(f"{str(found).rstrip('.')}.\n{way_to_usage(namespace)}") from served
    return served


def way_to_usage(namespace: str) -> str:
    """Who can give an account what the usage API or the whole cluster would tell."""
    return (
        "An administrator can grant the right: the metrics API of gpushare (monitoring.metricsApi) serves "
        f"this to everyone with the ClusterRole view in namespace {namespace}. A group under "
        "monitoring.viewers may read the whole cluster."
    )


async def collect_usage(
    client: KubeClient, selected: UsageFilter, report: Callable[[str], None]
) -> list[MetricSample]:
    """The series of the exporters; with the rights of one namespace, those of its containers.

    Raises what ``collect_series`` raises, and ConfigError for a cluster without the usage API.
    """
    series = collect_series(client, selected.node, report)
    namespace = selected.namespace
    if namespace is None:
        return await series

    async def own() -> list[MetricSample]:
        found = await usage_of(client, namespace)
        for note in found.notes:
            report(f"warning: {note}")
        return list(series_of(found.items))

    return await with_rights_of_namespace(series, own, namespace)


async def usage_of(client: KubeClient, namespace: str) -> GpuPodList:
    """The pods of a namespace that request units. Raises ApiError."""
    return await _get(client, _path(namespace, "gpupods"), GpuPodList)


async def explanation_of(client: KubeClient, namespace: str, pod: str) -> Answer:
    """Why the pod is pending, without names of other namespaces. Raises ApiError."""
    return await _get(client, _path(namespace, "gpupods", pod, "explanation"), Answer)


async def fits_in(client: KubeClient, namespace: str, units: int, gpus: int) -> GpuFitList:
    """How many pods of that size fit now, and on which kinds of nodes. Raises ApiError."""
    query = {"units": str(units), "gpus": str(gpus)}
    return await _get(client, _path(namespace, "gpufits"), GpuFitList, query)


def series_of(pods: Iterable[GpuPod]) -> Iterator[MetricSample]:
    """What the exporters reported of these pods; an unknown number has no series."""
    for pod in pods:
        labels = {"namespace": pod.metadata.namespace, "pod": pod.metadata.name, "node": pod.node or ""}
        for container in pod.containers:
            for gpu in container.gpus:
                index = "" if gpu.index is None else str(gpu.index)
                own = labels | {"container": container.name, "card": index, "uuid": gpu.uuid or ""}
                for metric, value_of in _FIELDS.items():
                    if (value := value_of(gpu)) is not None:
                        yield MetricSample(str(metric), own, value)


def _path(namespace: str, *names: str) -> str:
    quoted = "/".join(quote(name, safe="") for name in names)
    return f"/apis/{USAGE_VERSION}/namespaces/{quote(namespace, safe='')}/{quoted}"


async def _get(client: KubeClient, path: str, kind: type[T], query: dict[str, str] | None = None) -> T:
    body = await client.request("GET", path, timeout_s=TIMEOUT_S, query=query)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise ApiError(f"{path}: cannot be read: {error}", reason="Unreadable") from error
