"""The objects of a resource as the API server shows them now: a listener that keeps what it hears."""

import asyncio
from collections.abc import Iterable
from typing import Generic, TypeVar

import structlog

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.watch import Follower, Resource
from gpushare.errors import ApiError
from gpushare.model.changes import Deleted, Upserted

log = structlog.get_logger()
T = TypeVar("T")


class Mirror(Generic[T]):
    """All objects of a resource, by their keys. ``run`` follows it until it is cancelled."""

    def __init__(self, client: KubeClient, resource: Resource[T]) -> None:
        self.listed = asyncio.Event()
        self.objects: dict[str, T] = {}
        self._last_error: str | None = None
        self._follower: Follower[T] = Follower(client, resource, self)
        self.run = self._follower.run

    def latest(self, stale_s: float) -> tuple[T, ...] | None:
        """All objects; None before they are listed, and where the API was lost for longer than that."""
        known = self.listed.is_set() and self._follower.lost_s <= stale_s
        return tuple(self.objects.values()) if known else None

    def changed(self, batch: Iterable[Upserted[T] | Deleted]) -> None:
        """Keep what is there, drop what is gone."""
        for change in batch:
            if isinstance(change, Deleted):
                self.forget(change.key)
            else:
                self.keep(change.key, change.value)

    def keep(self, key: str, value: T) -> None:
        """An object is there, or another than before."""
        self.objects[key] = value

    def forget(self, key: str) -> None:
        """An object is gone."""
        self.objects.pop(key, None)

    def synced(self, resource: str) -> None:
        """The list has been taken in."""
        log.info("listed", resource=resource)
        self._last_error = None
        self.listed.set()

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        """The API refuses, or does not answer; what is known stays, until it is stale."""
        if self._last_error != str(error):
            log.warning("watch_restarted", resource=resource, reason=str(error), retry_s=retry_in_s)
        self._last_error = str(error)
