"""Unclear binds: bind POSTs with unknown outcome. Their units stay reserved until the outcome is known.

It is known when the watch shows the pod bound or deleted, or when the API server must have finished the
request and a quorum read shows the pod unbound. Nothing else releases such a reservation.
"""

import asyncio
import time
from typing import Final

import structlog

from gpushare.errors import ApiError
from gpushare.extender.api import ExtenderApi
from gpushare.extender.cluster import ClusterState
from gpushare.model.objects import Pod
from gpushare.scheduling.events import PodDeleted, Released

log = structlog.get_logger()

_RETRY_S: Final = 2.0


class UnclearBinds:
    """Tracks unclear binds. ``api_request_s`` is the request timeout of the API server, in seconds."""

    def __init__(
        self, cluster: ClusterState, api: ExtenderApi, *, tasks: asyncio.TaskGroup, api_request_s: float
    ) -> None:
        self._cluster = cluster
        self._api = api
        self._tasks = tasks
        self._api_request_s = api_request_s
        self._deadlines: dict[str, float] = {}
        self._watchers: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, uid: str) -> bool:
        return uid in self._deadlines

    def remaining_s(self, uid: str) -> float:
        """Seconds until the API server has certainly ended the last request."""
        return max(0.0, self._deadlines.get(uid, 0.0) - time.monotonic())

    def track(self, pod: Pod) -> None:
        """Track a POST with unknown outcome: keep its units reserved until the outcome is known."""
        first = pod.uid not in self._deadlines
        self._deadlines[pod.uid] = time.monotonic() + self._api_request_s
        if first:
            task = self._tasks.create_task(self._settle(pod))
            self._watchers.add(task)
            task.add_done_callback(self._watchers.discard)

    def extend(self, uid: str) -> None:
        """Restart the deadline of an unclear bind, because another POST of the same decision starts."""
        if uid in self._deadlines:
            self._deadlines[uid] = time.monotonic() + self._api_request_s

    def resolve(self, uid: str) -> None:
        """Stop tracking: the outcome is known."""
        self._deadlines.pop(uid, None)

    def cancel(self) -> None:
        """Stop all tracking tasks."""
        for task in self._watchers:
            task.cancel()

    async def check(self, pod: Pod, *, refused: bool = False) -> None:
        """Read the pod from etcd, and settle its reservation if that shows the outcome. Raises ApiError.

        ``refused``: the API server has just rejected the only POST, so an unbound pod is a known outcome too.
        """
        found = await self.read(pod)
        if found is None or found.uid != pod.uid:
            self._forget(pod.uid)
        # Also on another node: then that one has its units.
        elif found.node is not None:
            self.resolve(pod.uid)
            self._cluster.see_pod(found)
        elif self._dropped(pod.uid, refused=refused):
            self.resolve(pod.uid)
            self._cluster.apply(Released(pod.uid))

    async def read(self, pod: Pod) -> Pod | None:
        """Read the pod. An answer that the watch has overtaken is outdated: the pod may be gone since.

        Raises ApiError.
        """
        while True:
            with self._cluster.change_of(pod.uid) as change:
                found = await self._api.read_pod(pod.namespace, pod.name)
                if not change.done():
                    return found

    def _dropped(self, uid: str, *, refused: bool) -> bool:
        """Whether no POST for the pod can still take effect."""
        if uid not in self._deadlines:
            return refused
        return self.remaining_s(uid) == 0

    def _forget(self, uid: str) -> None:
        self.resolve(uid)
        self._cluster.pods.pop(uid, None)
        self._cluster.apply(PodDeleted(uid))

    async def _settle(self, pod: Pod) -> None:
        """Wait for the watch to show the outcome; after the deadline read the pod until that succeeds."""
        while pod.uid in self._deadlines:
            try:
                # After the deadline nothing remains, and a read that fails is repeated at this pace.
                async with asyncio.timeout(max(_RETRY_S, self.remaining_s(pod.uid))):
                    await self._cluster.next_change(pod.uid)
                self._check_ledger(pod)
            except TimeoutError:
                await self._check_api(pod)

    def _check_ledger(self, pod: Pod) -> None:
        reserved = self._cluster.ledger.reservation(pod.uid)
        if reserved is None or reserved[1].confirmed:
            self.resolve(pod.uid)
            log.info("unclear_bind_settled", pod=pod.full_name, node=reserved[0] if reserved else None)

    async def _check_api(self, pod: Pod) -> None:
        try:
            await self.check(pod)
        except ApiError as error:
            log.warning("unclear_bind_unread", pod=pod.full_name, reason=str(error))
