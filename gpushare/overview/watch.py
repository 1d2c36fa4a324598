"""Objects of the API server, watched for a user; failures are reported to them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.informer import Informer
from gpushare.adapters.kube.watch import Resource
from gpushare.adapters.kube.wire import Bare
from gpushare.errors import ApiError
from gpushare.model.changes import Deleted, Upserted

T = TypeVar("T")

_decode_bare = msgspec.json.Decoder(Bare).decode


class ReportingInformer(Informer[T]):
    """Requests a refresh after changes, and reports problems to the user instead of a log."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        changes: asyncio.Event,
        report: Callable[[str], None],
    ) -> None:
        super().__init__(client, resource)
        self._changes = changes
        self._report = report

    def changed(self, batch: Iterable[Upserted[T] | Deleted]) -> None:
        """Apply the changes, and request a refresh."""
        super().changed(batch)
        self._changes.set()

    def synced(self, resource: str) -> None:
        """Mark the resource as listed."""
        del resource
        self.listed.set()

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        """Report every failure."""
        self._report(f"watch of {resource}: {error}; next attempt in {retry_in_s:.0f} s")


def resource(
    name: str, path: str, read: Callable[[msgspec.Raw], T | None], query: Mapping[str, str] | None = None
) -> Resource[T]:
    """A collection of objects that ``read`` turns into values, by namespace and name."""

    def keyed(raw: msgspec.Raw) -> tuple[str, T] | None:
        value = read(raw)
        try:
            meta = _decode_bare(raw).metadata
        except msgspec.DecodeError:
            return None  # the first snapshot has reported it
        return None if value is None else (f"{meta.namespace}/{meta.name}", value)

    return Resource(name, path, msgspec.Raw, keyed, query or {})
