"""A cache of the objects of one resource, kept in step by a watch."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Generic, TypeVar

import structlog

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.watch import Follower, Resource
from gpushare.errors import ApiError
from gpushare.model.changes import Deleted, Upserted

log = structlog.get_logger()
T = TypeVar("T")


class Informer(Generic[T]):
    """All objects of a resource by key. ``run`` watches it until cancelled.

    ``turn`` is awaited between the slices of a list.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        turn: Callable[[], Awaitable[None]] = partial(asyncio.sleep, 0),  # noqa: B008 - called at each turn
    ) -> None:
        self.listed = asyncio.Event()
        self.objects: dict[str, T] = {}
        self._last_error: str | None = None
        self._follower: Follower[T] = Follower(client, resource, self, turn=turn)
        self.run = self._follower.run

    @property
    def lost_s(self) -> float:
        """The seconds since the watch was lost; 0 while it works."""
        return self._follower.lost_s

    def latest(self, stale_s: float) -> tuple[T, ...] | None:
        """Return all objects; None before the first list, or if the watch was lost for over ``stale_s``."""
        known = self.listed.is_set() and self.lost_s <= stale_s
        return tuple(self.objects.values()) if known else None

    def changed(self, batch: Iterable[Upserted[T] | Deleted]) -> None:
        """Apply the changes."""
        for change in batch:
            if isinstance(change, Deleted):
                self.forget(change.key)
            else:
                self.keep(change.key, change.value)

    def keep(self, key: str, value: T) -> None:
        """Store an object."""
        self.objects[key] = value

    def forget(self, key: str) -> None:
        """Remove an object."""
        self.objects.pop(key, None)

    def synced(self, resource: str) -> None:
        """Mark the resource as listed."""
        log.info("listed", resource=resource)
        self._last_error = None
        self.listed.set()

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        """Log the error once; the objects stay until they are stale."""
        if self._last_error != str(error):
            log.warning("watch_restarted", resource=resource, reason=str(error), retry_s=retry_in_s)
        self._last_error = str(error)
