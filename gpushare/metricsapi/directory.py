"""Caches of pods and nodes with their labels, and the URLs of exporters.

Watches keep them current; requests read them without waiting.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.informer import Informer
from gpushare.adapters.kube.metrics_api import DirectoryEntry
from gpushare.adapters.kube.watch import Resource
from gpushare.errors import ApiError
from gpushare.metricsapi.books import Books
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.metricsapi.watched import NODES, PODS, NodeEntry, PodEntry
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.objects import Pod
from gpushare.model.selector import Selector

T = TypeVar("T")
Turn = Callable[[], Awaitable[None]]
"""Awaited between the slices of a list."""


class CountedInformer(Informer[T]):
    """An informer with metrics. ``on_change`` is called after changes."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        metrics: ApiMetrics,
        on_change: Callable[[], None] = lambda: None,
        turn: Turn = partial(asyncio.sleep, 0),  # noqa: B008 - called at each turn
    ) -> None:
        super().__init__(client, resource, turn)
        self._metrics = metrics
        self._on_change = on_change

    def changed(self, batch: Iterable[Upserted[T] | Deleted]) -> None:
        """Apply the changes and call ``on_change``."""
        super().changed(batch)
        self._on_change()

    def synced(self, resource: str) -> None:
        """Set the metric and call ``on_change``: the list may be empty."""
        super().synced(resource)
        self._metrics.synced.labels(resource).set(1)
        self._on_change()

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        """Count the restart."""
        super().failed(resource, error, retry_in_s)
        self._metrics.watch_restarts.labels(resource).inc()


class Directory(CountedInformer[DirectoryEntry]):
    """Pods by namespace, or nodes under an empty one."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[DirectoryEntry],
        metrics: ApiMetrics,
        turn: Turn = partial(asyncio.sleep, 0),  # noqa: B008 - called at each turn
    ) -> None:
        super().__init__(client, resource, metrics, turn=turn)
        self._by_namespace: dict[str, dict[str, DirectoryEntry]] = {}

    def keep(self, key: str, value: DirectoryEntry) -> None:
        """Store an object, also by namespace."""
        super().keep(key, value)
        self._by_namespace.setdefault(value.namespace, {})[value.name] = value

    def forget(self, key: str) -> None:
        """Remove an object, and its namespace with the last object."""
        gone = self.objects.get(key)
        super().forget(key)
        if gone:
            entries = self._by_namespace[gone.namespace]
            entries.pop(gone.name)
            if not entries:
                self._by_namespace.pop(gone.namespace)

    def of(self, namespace: str) -> Mapping[str, DirectoryEntry]:
        """Return the objects of a namespace by name."""
        return self._by_namespace.get(namespace, {})


class PodDirectory(Directory):
    """Pods by namespace; those with units are in the books too."""

    def __init__(self, client: KubeClient, metrics: ApiMetrics, books: Books, turn: Turn) -> None:
        super().__init__(client, PODS, metrics, turn)
        self._books = books

    def keep(self, key: str, value: DirectoryEntry) -> None:
        """Store a pod."""
        before = self.objects.get(key)
        super().keep(key, value)
        self._books.change_pod(_units_of(before), _units_of(value))

    def forget(self, key: str) -> None:
        """Remove a pod."""
        before = self.objects.get(key)
        super().forget(key)
        self._books.change_pod(_units_of(before), None)


class NodeDirectory(Directory):
    """Nodes, which are in the books too."""

    def __init__(self, client: KubeClient, metrics: ApiMetrics, books: Books, turn: Turn) -> None:
        super().__init__(client, NODES, metrics, turn)
        self._books = books

    def keep(self, key: str, value: DirectoryEntry) -> None:
        """Store a node."""
        super().keep(key, value)
        self._books.change_node(value.name, value.details if isinstance(value, NodeEntry) else None)

    def forget(self, key: str) -> None:
        """Remove a node."""
        before = self.objects.get(key)
        super().forget(key)
        if before:
            self._books.change_node(before.name, None)


def _units_of(entry: DirectoryEntry | None) -> Pod | None:
    return entry.usage.core if isinstance(entry, PodEntry) and entry.usage else None


def exporter_urls(pods: Iterable[DirectoryEntry], selector: Selector, port: int) -> dict[str, str]:
    """Return the metrics URL of an exporter by node: two on one node would count twice."""
    by_node = {pod.node: pod.address for pod in pods if pod.running and pod.address and selector(pod.labels)}
    return {node: f"http://{_host(address)}:{port}/metrics" for node, address in by_node.items()}


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
