"""List and watch: follow a resource and report batches of changes.

A consistent list, then a watch with bookmarks. A watch that ends is resumed; if its version is too old (410),
it starts over with a list. A new list reports missing objects as deleted, so listeners need not track them.

Before a watch is resumed, a follower with ``ends_if_restored`` compares versions: a watch from a version that
the API server has not reached (again) delivers nothing until then, and never what happened before.
"""

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from gpushare.adapters.kube.client import TOO_LARGE, KubeClient
from gpushare.adapters.kube.decoding import decode, decode_in_turns
from gpushare.adapters.kube.wire import Bare, ListPage, WatchEvent
from gpushare.errors import ApiError, ApiRestored
from gpushare.model.changes import Deleted, Upserted, has_reached, is_older

T = TypeVar("T")

_LIST_TIMEOUT_S = 60.0
_PAGE_SIZE = 500
_PAGE_BYTES = 2**24
"""Of one page, which is in memory as a whole. A tenant's objects may have 1.5 MB each."""
_SLICE = 50
"""Objects of a page, or changes that have arrived together, between two turns of the loop.

2 ms for pods of 1.5 KB. To decode a page takes 4 ms.
"""
_WATCH_S = 290
_SILENCE_S = 150.0
"""Bookmarks arrive about once a minute; a stream that is silent for longer than this is dead."""
_PROBE_TIMEOUT_S = 15.0
_SHORT_WATCH_S = 3
"""The API server sends a bookmark 2 s before a watch times out."""
_FIRST_BACKOFF_S = 0.25
_LAST_BACKOFF_S = 10.0
_GONE = 410


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A collection to follow. ``read`` returns an object's key and value, None to skip it.

    ``query`` narrows the collection at ``path``, such as ``{"fieldSelector": "spec.nodeName=n"}``.
    """

    name: str
    path: str
    kind: Any
    read: Callable[[Any], tuple[str, T] | None]
    query: Mapping[str, str] = field(default_factory=dict)


class Listener(Protocol[T]):
    """Receives changes; all calls come from one task."""

    def changed(self, batch: Iterable[Upserted[T] | Deleted]) -> None:
        """Apply changes in order."""

    def synced(self, resource: str) -> None:
        """The list is complete."""

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        """A list or watch failed and will be retried after ``retry_in_s`` seconds."""


@dataclass(frozen=True, slots=True)
class FollowerDurations:
    """Durations in seconds.

    After ``quiet_s`` without data the API server is asked whether it still answers. After ``catch_up_s``, a
    refresh no longer waits for its mark and the bookmark after it, and lists again.
    """

    quiet_s: float = 25.0
    catch_up_s: float = 5.0


_DURATIONS = FollowerDurations()


class Follower(Generic[T]):
    """Follows one resource for one listener.

    ``read_elsewhere`` returns the keys that the listener has from other requests. Like listed ones they are
    reported as deleted if a list that starts later does not contain them. ``turn`` is awaited between the
    parts of the work of a list. With ``ends_if_restored``, ``run`` raises ApiRestored if the API server is
    found to have gone back to an earlier state.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        listener: Listener[T],
        read_elsewhere: Callable[[], Iterable[str]] = tuple,
        *,
        ends_if_restored: bool = False,
        durations: FollowerDurations = _DURATIONS,
        turn: Callable[[], Awaitable[None]] = partial(asyncio.sleep, 0),  # noqa: B008 - called at each turn
    ) -> None:
        self._client = client
        self._resource = resource
        self._listener = listener
        self._read_elsewhere = read_elsewhere
        self._ends_if_restored = ends_if_restored
        self._durations = durations
        self._turn = turn
        self._heard_at = 0.0
        self._known: set[str] = set()
        self._version = ""
        self._pages = 0
        self._page_size = _PAGE_SIZE
        self._listed = False
        self._lost_at: float | None = None
        self._relist_s = _FIRST_BACKOFF_S
        self._retry_wanted = asyncio.Event()
        self._refresh_wanted = asyncio.Event()
        self._refreshed: list[asyncio.Future[None]] = []
        self._page = msgspec.json.Decoder(ListPage[resource.kind])  # type: ignore[name-defined]
        self._object = msgspec.json.Decoder(resource.kind)
        self._event = msgspec.json.Decoder(WatchEvent)
        self._bare = msgspec.json.Decoder(Bare)

    @property
    def lost_s(self) -> float:
        """Return the seconds since the watch was lost; 0 while it works."""
        return 0.0 if self._lost_at is None else time.monotonic() - self._lost_at

    async def run(self) -> None:
        """Follow until cancelled."""
        backoff_s = _FIRST_BACKOFF_S
        while True:
            try:
                if self._listed and self._ends_if_restored:
                    self._compare(await self._newest_version())
                # Another refresh may be wanted while this one is under way.
                while not self._listed or self._refresh_wanted.is_set():
                    await self._bring_up_to_date()
                    backoff_s = _FIRST_BACKOFF_S
                await self._watch_until_refresh()
                backoff_s = _FIRST_BACKOFF_S
            except ApiError as error:
                if error.status == _GONE:
                    # A list follows, which has not failed yet. But it may be too old for a watch again:
                    # lists of a large cluster take long, and the API server keeps few changes.
                    self._listed, backoff_s = False, self._relist_s
                    self._relist_s = min(_LAST_BACKOFF_S, 2 * self._relist_s)
                if self._lost_at is None:
                    self._lost_at = time.monotonic()
                pause_s = max(error.retry_after_s, random.uniform(0.5, 1) * backoff_s)  # noqa: S311 - jitter
                # A wish from before this failure has had its attempt.
                self._retry_wanted.clear()
                self._listener.failed(self._resource.name, error, pause_s)
                # The pause that the server wants is not cut short.
                await asyncio.sleep(error.retry_after_s)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s - error.retry_after_s):
                        await self._retry_wanted.wait()
                backoff_s = min(_LAST_BACKOFF_S, 2 * backoff_s)

    def retry_now(self) -> None:
        """End the pause after a failure, but do not ask earlier than the API server wants."""
        self._retry_wanted.set()

    async def refresh(self) -> None:
        """Return once the listener has all changes that were made before this call."""
        future = asyncio.get_running_loop().create_future()
        self._refreshed.append(future)
        self._refresh_wanted.set()
        await future

    async def _bring_up_to_date(self) -> None:
        # Before the work starts: who asks during it may want changes that it misses.
        waiting, self._refreshed = self._refreshed, []
        self._refresh_wanted.clear()
        try:
            # A list of one page is quicker than a bookmark.
            if not (self._listed and self._pages > 1 and await self._catches_up()):
                await self._list()
        except ApiError:
            self._listed = False
            # The next attempt is also theirs.
            self._refreshed += waiting
            raise
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def _catches_up(self) -> bool:
        """Whether the watch delivers all earlier changes in time; otherwise a list is necessary.

        The newest version of the resource is the mark. A short watch, resumed where the last one ended,
        receives the changes up to the mark, or a bookmark beyond it. A mark that is older than what the watch
        has delivered belongs to another history: etcd was restored from a snapshot.
        """
        seen = self._version
        try:
            async with asyncio.timeout(self._durations.catch_up_s):
                mark = await self._newest_version()
                if is_older(seen, mark):
                    await self._watch(_SHORT_WATCH_S, mark)
        except (ApiError, TimeoutError):
            return False
        return has_reached(mark, seen) and has_reached(self._version, mark)

    async def _newest_version(self, timeout_s: float = _LIST_TIMEOUT_S) -> str:
        """The version of the collection by a quorum read.

        With ``resourceVersion=0`` the API server would ignore the limit and return the whole collection.
        """
        query = {**self._resource.query, "limit": "1"}
        body = await self._client.request("GET", self._resource.path, timeout_s=timeout_s, query=query)
        return (await self._decoded(body)).metadata.resource_version

    async def _watch_until_refresh(self) -> None:
        self._heard_at = time.monotonic()
        seconds = _WATCH_S + random.randrange(20)  # noqa: S311 - spread, not secret
        watch = asyncio.ensure_future(self._watch(seconds))
        probing = asyncio.ensure_future(self._probe_while_quiet())
        wanted = asyncio.ensure_future(self._refresh_wanted.wait())
        try:
            await asyncio.wait({watch, probing, wanted}, return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                watch.result()
            elif probing.done():
                probing.result()
        finally:
            for job in (watch, probing, wanted):
                job.cancel()
            await asyncio.gather(watch, probing, wanted, return_exceptions=True)

    async def _probe_while_quiet(self) -> None:
        """Raise ApiError once the API server does not answer although the watch is still connected."""
        while True:
            quiet_s = time.monotonic() - self._heard_at
            if quiet_s >= self._durations.quiet_s:
                await self._newest_version(_PROBE_TIMEOUT_S)
                self._heard_at = time.monotonic()
            else:
                await asyncio.sleep(self._durations.quiet_s - quiet_s)

    def _compare(self, version: str) -> None:
        if self._ends_if_restored and is_older(version, self._version):
            raise ApiRestored(self._resource.name, before=self._version, now=version)

    async def _list(self) -> None:
        # Before the first page: what is read elsewhere from now on may be newer than the list.
        before = self._known.union(self._read_elsewhere())
        listed: set[str] = set()
        token = ""
        pages = 0
        # The large objects of the last list may be gone.
        self._page_size = _PAGE_SIZE
        while True:
            page = await self._next_page(token)
            # Before objects of an earlier state are applied.
            self._compare(page.metadata.resource_version)
            pages += 1
            listed.update(await self._apply(page.items or ()))
            token = page.metadata.continue_
            if not token:
                break
        await self._delete(before - listed)
        self._known = listed
        self._pages = pages
        self._version = page.metadata.resource_version
        self._listed = True
        self._lost_at = None
        self._listener.synced(self._resource.name)

    async def _apply(self, items: Sequence[Any]) -> set[str]:
        """Apply the objects of a page in slices; returns their keys."""
        keys: set[str] = set()
        for start in range(0, len(items), _SLICE):
            read = map(self._resource.read, items[start : start + _SLICE])
            batch = [Upserted(*found) for found in read if found]
            keys.update(change.key for change in batch)
            # At once: if a later page fails, the next list must report those that are gone by then.
            self._known |= keys
            self._listener.changed(batch)
            await self._turn()
        return keys

    async def _delete(self, keys: Iterable[str]) -> None:
        """Report deletions in slices: all objects may have been replaced while the watch was lost."""
        left = iter(keys)
        while some := [Deleted(key) for key in islice(left, _SLICE)]:
            self._listener.changed(some)
            await self._turn()

    async def _next_page(self, token: str) -> ListPage[Any]:
        while (body := await self._page_body(token)) is None:
            self._page_size //= 4
        # Twice as many objects of this size still leave a wide margin.
        if 4 * len(body) < _PAGE_BYTES:
            self._page_size = min(2 * self._page_size, _PAGE_SIZE)
        # To receive and to decode a page take a slice each.
        await self._turn()
        page = await self._decoded(body)
        await self._turn()
        return page

    async def _page_body(self, token: str) -> bytes | None:
        """None if the page has too many bytes and more than one object."""
        query = {**self._resource.query, "limit": str(self._page_size)} | (
            {"continue": token} if token else {}
        )
        path, most = self._resource.path, _PAGE_BYTES if self._page_size > 1 else sys.maxsize
        try:
            return await self._client.get_up_to(most, path, timeout_s=_LIST_TIMEOUT_S, query=query)
        except ApiError as error:
            if error.reason != TOO_LARGE:
                raise
            return None

    async def _decoded(self, body: bytes) -> ListPage[Any]:
        try:
            return await decode_in_turns(self._page, body, self._turn)
        except msgspec.DecodeError as error:
            raise ApiError(
                f"{self._resource.name}: list cannot be read: {error}", reason="Unreadable"
            ) from error

    async def _watch(self, seconds: int, mark: str | None = None) -> None:
        """Take changes until the API server ends the watch, or until the version ``mark`` is passed."""
        query = {
            **self._resource.query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        rest = b""
        stream = self._client.stream(self._resource.path, silence_s=_SILENCE_S, query=query)
        async with aclosing(stream):
            async for chunk in stream:
                self._lost_at = None
                self._heard_at = time.monotonic()
                # A chunk ends anywhere, mostly within a line.
                *lines, rest = (rest + chunk).split(b"\n")
                for start in range(0, len(lines), _SLICE):
                    # Not before the first slice: most chunks have one line, and it should not wait.
                    if start:
                        await asyncio.sleep(0)
                    await self._take(lines[start : start + _SLICE])
                if mark and has_reached(self._version, mark):
                    return

    async def _take(self, lines: list[bytes]) -> None:
        batch: list[Upserted[T] | Deleted] = []
        try:
            for line in lines:
                if line:
                    await self._take_line(line, batch)
        except msgspec.DecodeError as error:
            raise ApiError(f"{self._resource.name}: watch cannot be read: {error}", status=_GONE) from error
        finally:
            # Also if a later line is an error: the changes before it have happened.
            if batch:
                self._listener.changed(batch)

    async def _take_line(self, line: bytes, batch: list[Upserted[T] | Deleted]) -> None:
        event = await decode_in_turns(self._event, line, self._turn)
        if event.type == "ERROR":
            status = decode(self._bare, event.object)
            raise ApiError(f"{self._resource.name}: watch ended: {status.message}", status=status.code)
        # A watch that delivers was not too old.
        self._relist_s = _FIRST_BACKOFF_S
        if event.type == "BOOKMARK":
            self._version = decode(self._bare, event.object).metadata.resource_version
            return
        item = decode(self._object, event.object)
        found = self._resource.read(item)
        if found is not None:
            self._note(event.type, *found, batch)
        # Also of an object that is skipped: the watch resumes behind it.
        metadata = getattr(item, "metadata", None) or decode(self._bare, event.object).metadata
        self._version = metadata.resource_version

    def _note(self, kind: str, key: str, value: T, batch: list[Upserted[T] | Deleted]) -> None:
        if kind == "DELETED":
            self._known.discard(key)
            batch.append(Deleted(key))
        else:
            self._known.add(key)
            batch.append(Upserted(key, value))
