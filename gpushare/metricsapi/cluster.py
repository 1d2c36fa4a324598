"""What the usage API reads on request: one pod, and what the books need besides the watches."""

from typing import Final

from gpushare.adapters.kube.client import KubeClient
from gpushare.metricsapi.books import Books
from gpushare.overview.ledger_inputs import collect_cgpu_pods, collect_unhealthy
from gpushare.overview.lists import decoded, named_pods, pods_path
from gpushare.overview.objects import ClusterPod
from gpushare.runtime.cache import FetchCache

_KEEP_S: Final = 10.0
"""Lists of unhealthy GPUs change rarely; the published health of a GPU arrives by the watch."""


class ClusterReader:
    """Reads with the account of the metrics API."""

    def __init__(self, client: KubeClient, books: Books) -> None:
        self._client = client
        self._books = books
        self._notes: FetchCache[None, tuple[str, ...]] = FetchCache(lambda _: self._read_settings(), _KEEP_S)

    async def pod_of(self, namespace: str, name: str) -> ClusterPod | None:
        """The pod as it is now; None if there is none. Raises ApiError."""
        raws = await named_pods(self._client, name, namespace)
        return next(iter(decoded(raws, ClusterPod, pods_path(namespace))), None)

    async def refresh(self) -> tuple[str, ...]:
        """Bring the settings of the books up to date; returns what could not be read. Raises ApiError."""
        return await self._notes.get(None)

    async def _read_settings(self) -> tuple[str, ...]:
        notes: list[str] = []
        unhealthy = await collect_unhealthy(self._client, notes)
        self._books.change_settings(unhealthy, await collect_cgpu_pods(self._client))
        return tuple(notes)
