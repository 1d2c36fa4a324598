"""One eviction: announce → fence → POST, as for a bind, so that two replicas never evict at the same time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum
from http import HTTPStatus

import structlog

from gpushare.errors import ApiError
from gpushare.extender.api import ExtenderApi
from gpushare.extender.cluster import ClusterState
from gpushare.extender.lease import LeaseDurations
from gpushare.model.objects import Pod
from gpushare.ports import Fence

log = structlog.get_logger()


class Evicted(StrEnum):
    """The outcome of an eviction; the values are those of the metric."""

    DONE = "evicted"
    GONE = "gone"
    """The pod had ended already."""
    BUDGET = "pdb"
    """A disruption budget forbids it now."""
    NOT_LEADING = "not_leading"
    FAILED = "error"


class Evictor:
    """The only one that evicts in this process. ``announce`` and ``fence`` are those of ``Binder``."""

    def __init__(
        self,
        cluster: ClusterState,
        api: ExtenderApi,
        *,
        announce: Callable[[], Awaitable[None]],
        fence: Fence,
        durations: LeaseDurations,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._api = api
        self._announce = announce
        self._fence = fence
        self._durations = durations
        self._clock = clock
        self._posting = asyncio.Lock()
        self._may_arrive_until = float("-inf")
        self._stopped = False

    @property
    def busy(self) -> bool:
        """Whether an eviction is in progress, or one with an unknown outcome may still have an effect."""
        return self._posting.locked() or self.unclear

    @property
    def unclear(self) -> bool:
        """Whether an eviction with an unknown outcome may still have an effect."""
        return self._clock() < self._may_arrive_until

    async def stop(self) -> None:
        """Return when no eviction is in progress; none starts from now on."""
        self._stopped = True
        async with self._posting:
            pass

    async def evict(self, pod: Pod) -> Evicted:
        """Evict a pod, unless this replica may not, or the API server refuses."""
        async with self._posting:
            await self._announce()
            if self._stopped or self._fence():
                return Evicted.NOT_LEADING
            # One that is cancelled has an unknown outcome.
            self._may_arrive_until = self._clock() + self._durations.late_s
            try:
                await self._api.evict(pod, timeout_s=self._durations.post_s, fence=self._fence)
            except ApiError as error:
                if error.clear:
                    self._may_arrive_until = float("-inf")
                return _outcome(pod, error)
            self._may_arrive_until = float("-inf")
            self._cluster.note_eviction(pod.uid)
            return Evicted.DONE


def _outcome(pod: Pod, error: ApiError) -> Evicted:
    if error.unsent:
        return Evicted.NOT_LEADING
    # A UID that differs is a conflict: the pod has ended, and another one has its name.
    if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
        return Evicted.GONE
    if error.status == HTTPStatus.TOO_MANY_REQUESTS:
        return Evicted.BUDGET
    log.warning("eviction_failed", pod=pod.full_name, status=error.status, reason=str(error))
    return Evicted.FAILED
