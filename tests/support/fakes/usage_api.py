"""The usage API without its server; the API server and the exporters are FAKES.

What belongs here: objects as watches deliver them, and pages of exporters. What does not: tests.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.client import KubeClient
from gpushare.errors import SourceError
from gpushare.metricsapi.books import Books
from gpushare.metricsapi.directory import NodeDirectory, PodDirectory
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.metricsapi.node_pages import NodePages
from gpushare.metricsapi.usage import UsageService
from gpushare.metricsapi.watched import NODES, PODS
from gpushare.model.changes import Deleted, Upserted
from gpushare.overview.objects import ClusterPod
from gpushare.runtime.fairness import TimeSlices

Json = Mapping[str, Any]


class UsageApi:
    """``pages`` are the pages of exporters by node; ``notes`` are what cannot be read."""

    def __init__(self, metrics: ApiMetrics | None = None) -> None:
        client, slices = KubeClient(ApiAccess(host="http://127.0.0.1:1")), TimeSlices()
        metrics = metrics or ApiMetrics()
        self.pages: dict[str, bytes] = {}
        self.notes: tuple[str, ...] = ()
        self.lost_s = 0.0
        self.books = Books(slices)
        self.pods = PodDirectory(client, metrics, self.books, slices.turn)
        self.nodes = NodeDirectory(client, metrics, self.books, slices.turn)
        self._listed: dict[tuple[str, str], bytes] = {}
        self.service = UsageService(
            self.pods,
            self.books,
            NodePages(self._page, lambda: {name: name for name in self.books.nodes}, metrics, keep_s=0),
            slices,
            pod_of=self._pod,
            refresh=self._refresh,
            lost_s=lambda: self.lost_s,
        )

    def see(self, *objects: Json) -> None:
        """Apply nodes and pods as the API server's watches deliver them."""
        for each in objects:
            meta = each["metadata"]
            raw = msgspec.Raw(msgspec.json.encode(each))
            is_pod = "namespace" in meta
            found = (PODS if is_pod else NODES).read(raw)
            assert found
            (self.pods if is_pod else self.nodes).changed([Upserted(*found)])
            if is_pod:
                self._listed[meta["namespace"], meta["name"]] = bytes(raw)

    def miss(self, namespace: str, name: str) -> None:
        """Apply the deletion of a pod, or of a node if the namespace is empty."""
        (self.pods if namespace else self.nodes).changed([Deleted(f"{namespace}/{name}")])
        self._listed.pop((namespace, name), None)

    async def _page(self, url: str) -> bytes:
        if url not in self.pages:
            raise SourceError(f"{url}: no answer")
        return self.pages[url]

    async def _pod(self, namespace: str, name: str) -> ClusterPod | None:
        found = self._listed.get((namespace, name))
        return None if found is None else msgspec.json.decode(found, type=ClusterPod)

    async def _refresh(self) -> tuple[str, ...]:
        return self.notes
