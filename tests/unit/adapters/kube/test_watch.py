"""List and watch with a scripted server on loopback."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from aiohttp import web

from gpushare.adapters.kube import watch
from gpushare.adapters.kube.watch import Follower, FollowerDurations, Resource
from gpushare.adapters.kube.wire import Bare
from gpushare.errors import ApiError, ApiRestored
from gpushare.model.changes import Deleted, Upserted
from tests.support.waiting import until
from tests.unit.adapters.fakes import Answer, Served, fixed, page, serving


def thing(name: str, version: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}}


def line(kind: str, value: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


def bookmark(version: str) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": version}})


def read(found: Bare) -> tuple[str, str] | None:
    """Key and version; things whose name begins with x are left out."""
    meta = found.metadata
    return None if meta.name.startswith("x") else (meta.name, meta.resource_version)


THINGS: Resource[str] = Resource("things", "/things", Bare, read)
Change = Upserted[str] | Deleted


@dataclass
class Heard:
    """A listener that records its calls."""

    changes: list[Change] = field(default_factory=list)
    syncs: int = 0
    troubles: list[ApiError] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    failed_at: float = 0.0

    def changed(self, batch: Iterable[Change]) -> None:
        self.changes += batch

    def synced(self, resource: str) -> None:
        assert resource == "things"
        self.syncs += 1

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        assert resource == "things"
        assert retry_in_s >= 0
        self.troubles.append(error)
        self.pauses.append(retry_in_s)
        self.failed_at = time.monotonic()


@dataclass
class Scene:
    """A follower of things, its listener and the server."""

    served: Served
    heard: Heard
    follower: Follower[str]
    turns: list[int] = field(default_factory=list)
    """The number of changes at each turn that the follower of ``scene`` leaves to other work."""

    async def asks(self, count: int) -> None:
        """Return when the server has got so many requests."""
        await until(lambda: len(self.served.asked) >= count)

    async def hears(self, *changes: Change) -> None:
        """Return when these are the changes so far."""
        await until(lambda: len(self.heard.changes) >= len(changes))
        assert self.heard.changes == list(changes)

    @property
    def asked(self) -> list[str | None]:
        """The version of each watch; None for a list or a probe."""
        return [query.get("resourceVersion") for query in self.served.asked]


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with serving() as served:
        turns: list[int] = []

        async def turn() -> None:
            turns.append(len(heard.changes))

        heard = Heard()
        yield Scene(served, heard, Follower(served.client, THINGS, heard, turn=turn), turns)


@asynccontextmanager
async def following(s: Scene) -> AsyncIterator[None]:
    task = asyncio.create_task(s.follower.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_list_in_pages_is_taken_in_whole_before_it_counts_as_synced() -> None:
    async with scene() as s:
        s.served.script += [
            page(thing("a"), thing("x"), version="5", then="more"),
            page(thing("b", "2"), version="5"),
        ]
        async with following(s):
            await s.asks(3)
            assert s.heard.changes == [Upserted("a", "1"), Upserted("b", "2")]
            assert s.heard.syncs == 1
            assert [q.get("continue") for q in s.served.asked] == [None, "more", None]
            assert s.asked == [None, None, "5"]
            assert s.served.asked[2]["allowWatchBookmarks"] == "true"


async def test_objects_of_any_depth_are_followed() -> None:
    """Users may nest ``managedFields`` of their pods as deeply as the API server accepts JSON."""
    deep = msgspec.Raw(b'{"f:a":' * 9000 + b"{}" + b"}" * 9000)
    first, second = thing("a"), thing("b", "6")
    for each in (first, second):
        each["metadata"]["managedFields"] = [{"fieldsV1": deep}]
    async with scene() as s:
        listed = msgspec.json.encode({"metadata": {"resourceVersion": "5"}, "items": [first]})
        added = msgspec.json.encode({"type": "ADDED", "object": second})
        s.served.script += [fixed(200, listed), s.served.stream(added + b"\n")]
        async with following(s):
            await s.hears(Upserted("a", "1"), Upserted("b", "6"))
    assert s.heard.troubles == []


async def test_other_work_has_turns_while_a_deep_object_is_decoded() -> None:
    wide = b"[" * 1500 + b"[]," * 100_000 + b"[]" + b"]" * 1500
    deep = line("ADDED", thing("a")).replace(b'"metadata"', b'"status": ' + wide + b', "metadata"')
    async with scene() as s:
        s.served.script += [page(version="5"), s.served.stream(deep)]
        async with following(s):
            await s.hears(Upserted("a", "1"))
            assert len(s.turns) > 50


async def test_a_page_is_applied_in_slices() -> None:
    """A page of 500 objects takes tens of milliseconds; filter and bind wait for a slice of it at most."""
    async with scene() as s:
        s.served.script.append(page(*(thing(f"t{number}") for number in range(120)), version="5"))
        async with following(s):
            await s.asks(2)
    received = decoded = 0
    assert s.turns == [received, decoded, 50, 100, 120]


async def test_the_deletions_of_a_list_are_applied_in_slices() -> None:
    """All objects may have been replaced while the API server did not answer."""
    async with scene() as s:
        s.served.script += [
            page(*(thing(f"t{number}") for number in range(120)), version="5"),
            fixed(410),
            page(version="6"),
        ]
        async with following(s):
            await s.asks(4)
    assert s.turns[5:] == [120, 120, 170, 220, 240]
    assert set(s.heard.changes[120:]) == {Deleted(f"t{number}") for number in range(120)}


async def test_changes_come_in_their_order() -> None:
    async with scene() as s:
        s.served.script += [
            page(version="5"),
            s.served.stream(
                line("ADDED", thing("a", "6")) + line("MODIFIED", thing("a", "7")),
                line("ADDED", thing("x", "8")),
                line("DELETED", thing("a", "9")),
            ),
        ]
        async with following(s):
            await s.hears(Upserted("a", "6"), Upserted("a", "7"), Deleted("a"))


async def test_many_changes_at_once_are_applied_in_slices() -> None:
    """A client that falls behind gets megabytes at once, such as all pods of a zone that have ended."""
    async with scene() as s:
        changes = b"".join(line("ADDED", thing(f"t{number}", str(number + 6))) for number in range(120))
        s.served.script += [page(version="5"), s.served.stream(changes)]
        applied: list[int] = []
        async with following(s):
            while not applied or applied[-1] < 120:
                applied.append(len(s.heard.changes))
                await asyncio.sleep(0)
    assert [change.key for change in s.heard.changes] == [f"t{number}" for number in range(120)]
    assert {0, 50, 100, 120} == {*applied}


async def test_a_line_may_come_in_any_pieces() -> None:
    async with scene() as s:
        whole = line("ADDED", thing("a", "6")) + line("ADDED", thing("b", "7"))
        pieces = [whole[:1], whole[1:40], whole[40:90], whole[90:]]
        s.served.script += [page(version="5"), s.served.stream(*pieces)]
        async with following(s):
            await s.hears(Upserted("a", "6"), Upserted("b", "7"))


async def test_a_watch_that_ends_is_resumed_where_the_last_bookmark_stood() -> None:
    async with scene() as s:
        s.served.script += [
            page(version="5"),
            s.served.stream(line("ADDED", thing("a", "6")), bookmark("40"), stay=False),
        ]
        async with following(s):
            await s.asks(3)
            assert s.asked == [None, "5", "40"]
            assert s.heard.syncs == 1
            assert s.heard.troubles == []


async def test_things_that_are_left_out_advance_the_version_too() -> None:
    async with scene() as s:
        s.served.script += [page(version="5"), s.served.stream(line("ADDED", thing("x", "9")), stay=False)]
        async with following(s):
            await s.asks(3)
            assert s.asked[2] == "9"


async def test_a_version_that_is_too_old_starts_over_and_reports_deletions() -> None:
    async with scene() as s:
        gone = line("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})
        s.served.script += [
            page(thing("a"), thing("b"), version="5"),
            s.served.stream(line("ADDED", thing("c", "6")), gone),
            page(thing("b"), version="50"),
        ]
        async with following(s):
            await s.asks(4)
            assert s.heard.changes[-3:] == [Upserted("b", "1"), *s.heard.changes[-2:]]
            assert set(s.heard.changes[-2:]) == {Deleted("a"), Deleted("c")}
            assert s.asked == [None, "5", None, "50"]
            assert [(e.status, "too old" in str(e)) for e in s.heard.troubles] == [(410, True)]


async def test_a_410_as_the_answer_to_the_watch_starts_over_too() -> None:
    async with scene() as s:
        s.served.script += [page(version="5"), fixed(410, '{"message":"expired"}'), page(version="50")]
        async with following(s):
            await s.asks(4)
            assert s.asked == [None, "5", None, "50"]


async def test_after_other_errors_a_410_is_followed_by_a_list_without_a_longer_pause() -> None:
    async with scene() as s:
        s.served.script += [page(version="5"), fixed(503), fixed(503), fixed(410), page(version="50")]
        async with following(s):
            await s.asks(6)
            assert s.asked == [None, "5", "5", "5", None, "50"]
            assert s.heard.pauses[1] > 0.25 >= s.heard.pauses[2]


async def test_lists_that_are_too_old_for_a_watch_become_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_FIRST_BACKOFF_S", 0.001)
    async with scene() as s:
        s.served.script += 6 * [page(version="5"), fixed(410)]
        async with following(s):
            await until(lambda: len(s.heard.pauses) == 6)
            assert s.heard.pauses[5] > 0.015 > s.heard.pauses[2]


async def test_after_a_change_a_410_is_followed_by_a_list_without_a_longer_pause() -> None:
    async with scene() as s:
        gone = line("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})
        watched = s.served.stream(line("ADDED", thing("c", "6")), gone)
        s.served.script += [page(version="5"), watched, page(version="6"), watched, page(version="7")]
        async with following(s):
            await s.asks(6)
            assert all(pause <= 0.25 for pause in s.heard.pauses)


async def test_another_error_event_resumes_from_the_same_version() -> None:
    async with scene() as s:
        s.served.script += [
            page(version="5"),
            s.served.stream(line("ERROR", {"code": 500, "message": "etcd is away"})),
        ]
        async with following(s):
            await s.asks(3)
            assert s.asked == [None, "5", "5"]
            assert [(e.status, str(e)) for e in s.heard.troubles] == [
                (500, "things: watch ended: etcd is away")
            ]


async def test_a_line_that_cannot_be_read_starts_over_and_loses_nothing_before_it() -> None:
    async with scene() as s:
        s.served.script += [
            page(version="5"),
            s.served.stream(line("ADDED", thing("a", "6")) + b"junk\n"),
            page(thing("a", "6"), version="50"),
        ]
        async with following(s):
            await s.asks(4)
            assert s.heard.changes == [Upserted("a", "6")] * 2
            assert s.asked == [None, "5", None, "50"]
            assert "watch cannot be read" in str(s.heard.troubles[0])


async def test_an_unreadable_list_is_retried() -> None:
    async with scene() as s:
        s.served.script += [fixed(200, b"[]"), page(thing("a"), version="5")]
        async with following(s):
            await s.hears(Upserted("a", "1"))
            assert "list cannot be read" in str(s.heard.troubles[0])


async def test_a_refused_list_is_reported_and_retried() -> None:
    async with scene() as s:
        s.served.script += [fixed(403, '{"message":"cannot list things"}'), page(version="5")]
        async with following(s):
            await s.asks(3)
            assert [(e.status, str(e)) for e in s.heard.troubles] == [(403, "cannot list things")]
            assert s.heard.syncs == 1


async def test_a_busy_api_server_says_when_to_ask_again() -> None:
    async with scene() as s:
        s.served.script += [fixed(429, "{}", Retry_After="30")]
        async with following(s):
            await until(lambda: s.heard.pauses)
            assert s.heard.pauses == [30]


async def test_a_wanted_retry_ends_the_pause_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_FIRST_BACKOFF_S", 600)
    async with scene() as s:
        s.served.script += [fixed(503, "{}"), page(thing("a"), version="5")]
        async with following(s):
            await until(lambda: s.heard.pauses)
            s.follower.retry_now()
            await s.hears(Upserted("a", "1"))


async def test_a_page_with_too_many_bytes_is_asked_for_again_with_fewer_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One namespace may have hundreds of pods of a megabyte."""
    monkeypatch.setattr(watch, "_PAGE_BYTES", 1000)
    large = thing("l" * 990)
    async with scene() as s:
        s.served.script += [
            page(large, thing("a"), version="5"),
            page(large, version="5"),
            *[page(large, version="5")] * 2,
            page(large, version="5", then="2"),
            page(thing("b"), version="5", then="3"),
            page(thing("c"), version="5"),
        ]
        async with following(s):
            await s.hears(*(Upserted(name, "1") for name in ("l" * 990, "b", "c")))
        assert [query["limit"] for query in s.served.asked[:7]] == ["500", "125", "31", "7", "1", "1", "2"]
        assert s.heard.troubles == []


async def test_a_wanted_retry_does_not_keep_a_follower_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """``asyncio.wait_for`` would swallow the cancellation."""
    monkeypatch.setattr(watch, "_FIRST_BACKOFF_S", 600)
    async with scene() as s:
        s.served.script += [fixed(503, "{}"), page(version="5")]
        running = asyncio.ensure_future(s.follower.run())
        await until(lambda: s.heard.pauses)
        await asyncio.sleep(0.01)
        s.follower.retry_now()
        running.cancel()
        await asyncio.wait({running}, timeout=5)
        assert running.cancelled()


async def test_a_wanted_retry_ends_no_later_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_FIRST_BACKOFF_S", 600)
    async with scene() as s:
        s.served.script += [page(version="5"), fixed(503, "{}"), fixed(503, "{}")]
        s.follower.retry_now()
        async with following(s):
            await until(lambda: s.heard.pauses)
            s.follower.retry_now()
            await until(lambda: len(s.heard.pauses) == 2)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(s.asks(4), 0.2)


async def test_a_wanted_retry_does_not_come_before_the_api_server_wants_it() -> None:
    async with scene() as s:
        s.served.script += [fixed(429, "{}", Retry_After="1"), page(version="5")]
        async with following(s):
            await until(lambda: s.heard.pauses)
            s.follower.retry_now()
            await s.asks(2)
            assert time.monotonic() - s.heard.failed_at >= 1


async def test_a_follower_is_lost_from_its_first_failure_until_it_lists_or_watches_again() -> None:
    async with scene() as s:
        s.served.script += [page(version="5"), fixed(500, "{}"), fixed(500, "{}"), s.served.stream()]
        async with following(s):

            def failed_twice() -> bool:
                assert (s.follower.lost_s > 0) == bool(s.heard.troubles)
                return len(s.heard.troubles) == 2

            await until(failed_twice)
            await until(lambda: not s.follower.lost_s)
            assert s.asked == [None, "5", "5", "5"]


async def restored(*script: Answer) -> tuple[str, list[str | None]]:
    """The error of a follower that ends if the API server was restored, and its requests."""
    async with serving() as served:
        follower = Follower(served.client, THINGS, heard := Heard(), ends_if_restored=True)
        s = Scene(served, heard, follower)
        served.script += script
        with pytest.raises(ApiRestored) as raised:
            await asyncio.wait_for(follower.run(), 5)
        return str(raised.value), s.asked


async def test_a_watch_is_not_resumed_from_a_version_that_the_api_server_has_not_reached() -> None:
    """It would be silent until that version, and miss everything before."""
    watch = Served().stream(bookmark("10"), stay=False)
    error, asked = await restored(page(version="5"), watch, fixed(503), page(version="9"))
    assert asked == [None, "5", None, None]
    assert error.startswith("things: the API server returned version 9 after 10, so it was restored")


async def test_a_list_of_an_earlier_version_is_not_applied() -> None:
    watch = Served().stream(line("ERROR", {"code": 410, "message": "too old"}))
    error, asked = await restored(page(version="5"), watch, page(version="4"))
    assert asked == [None, "5", None]
    assert "version 4 after 5" in error


async def test_a_watch_is_resumed_if_the_api_server_has_reached_its_version() -> None:
    async with serving() as served:
        follower = Follower(served.client, THINGS, heard := Heard(), ends_if_restored=True)
        s = Scene(served, heard, follower)
        served.script += [page(version="5"), served.stream(bookmark("10"), stay=False), page(version="10")]
        async with following(s):
            await s.asks(4)
            assert s.asked == [None, "5", None, "10"]
            assert s.served.asked[2] == {"limit": "1"}


@asynccontextmanager
async def quiet_scene(quiet_s: float) -> AsyncIterator[Scene]:
    async with serving() as served:
        follower = Follower(
            served.client, THINGS, heard := Heard(), durations=FollowerDurations(quiet_s=quiet_s)
        )
        yield Scene(served, heard, follower)


PROBED = [page(version=str(version)) for version in range(6, 506)]
"""Answers to more probes than a slow machine sends before a test looks."""


async def test_a_quiet_watch_is_kept_while_the_api_server_answers_for_one_object() -> None:
    """With ``resourceVersion=0`` the API server would return the whole collection, whatever the limit is."""
    async with quiet_scene(0.02) as s:
        s.served.script += [page(version="5"), s.served.stream(), *PROBED]
        async with following(s):
            await s.asks(4)
            assert s.asked[:4] == [None, "5", None, None]
            assert s.served.asked[2] == {"limit": "1"}
            assert (s.follower.lost_s, s.heard.troubles) == (0.0, [])


async def test_a_quiet_watch_is_lost_if_the_api_server_does_not_answer() -> None:
    async with quiet_scene(0.02) as s:
        s.served.script += [page(version="5"), s.served.stream(), fixed(503), s.served.stream(), *PROBED]
        async with following(s):
            await s.asks(4)
            assert [error.status for error in s.heard.troubles] == [503]
            assert s.asked[:4] == [None, "5", None, "5"]


@asynccontextmanager
async def watching(*after: Answer, version: str = "5", catch_up_s: float = 5.0) -> AsyncIterator[Scene]:
    """A follower that has listed ``a`` in two pages and watches, before its script goes on with ``after``."""
    async with serving() as served:
        follower = Follower(
            served.client, THINGS, heard := Heard(), durations=FollowerDurations(catch_up_s=catch_up_s)
        )
        s = Scene(served, heard, follower)
        served.script += [page(thing("a"), version=version, then="more"), page(version=version)]
        async with following(s):
            await s.asks(3)
            served.script += after
            yield s


async def refreshed(s: Scene) -> None:
    async with asyncio.timeout(5):
        await s.follower.refresh()


async def test_a_refresh_of_one_page_lists_again_and_reports_deletions() -> None:
    async with scene() as s:
        s.served.script.append(page(thing("a"), version="5"))
        async with following(s):
            await s.asks(2)
            s.served.script.append(page(thing("b"), version="6"))
            await refreshed(s)
            assert s.heard.changes == [Upserted("a", "1"), Upserted("b", "1"), Deleted("a")]
            assert s.asked[:3] == [None, "5", None]


async def test_a_refresh_waits_for_a_bookmark_beyond_the_newest_version() -> None:
    async with watching(page(thing("b"), version="9")) as s:
        s.served.script.append(s.served.stream(line("ADDED", thing("b", "7")), bookmark("12")))
        await refreshed(s)
        assert s.heard.changes == [Upserted("a", "1"), Upserted("b", "7")]
        await s.asks(6)
        assert s.asked[2:] == ["5", None, "5", "12"]
        assert s.served.asked[3]["limit"] == "1"
        assert s.heard.syncs == 1


async def test_a_refresh_waits_for_the_change_that_made_the_newest_version() -> None:
    async with watching(page(thing("b"), version="9")) as s:
        s.served.script.append(
            s.served.stream(line("DELETED", thing("a", "8")), line("ADDED", thing("b", "9")))
        )
        await refreshed(s)
        assert s.heard.changes == [Upserted("a", "1"), Deleted("a"), Upserted("b", "9")]
        assert s.heard.syncs == 1


async def test_a_refresh_needs_no_watch_if_nothing_has_changed() -> None:
    async with watching(page(thing("a"), version="5")) as s:
        await refreshed(s)
        await s.asks(5)
        assert s.asked[2:] == ["5", None, "5"]
        assert int(s.served.asked[4]["timeoutSeconds"]) > 200


@pytest.mark.parametrize(("before", "mark"), [("9", "5"), ("9", "10a"), ("x", "9"), ("9", "")])
async def test_a_refresh_lists_if_the_newest_version_is_older_or_no_number(before: str, mark: str) -> None:
    """Older: etcd was restored from a snapshot, and the watch has delivered changes that never were."""
    async with watching(page(version=mark), page(thing("b"), version="20"), version=before) as s:
        await refreshed(s)
        assert s.heard.changes == [Upserted("a", "1"), Upserted("b", "1"), Deleted("a")]
        assert s.heard.syncs == 2


@pytest.mark.parametrize(
    "answer",
    [Served().stream(bookmark("8")), Served().stream(bookmark("8"), stay=False), fixed(410)],
    ids=["no bookmark in time", "an end before the newest version", "too old"],
)
async def test_a_refresh_lists_if_its_short_watch_does_not_reach_the_newest_version(answer: Answer) -> None:
    async with watching(page(version="9"), answer, page(thing("b"), version="9"), catch_up_s=0.5) as s:
        await refreshed(s)
        assert s.heard.changes == [Upserted("a", "1"), Upserted("b", "1"), Deleted("a")]
        assert s.heard.syncs == 2


async def test_what_was_read_elsewhere_before_a_list_and_is_absent_from_it_is_deleted() -> None:
    elsewhere = ["gone"]

    async def first_page(request: web.Request) -> web.StreamResponse:
        elsewhere.append("created-meanwhile")
        return await page(thing("a"), version="5")(request)

    async with serving() as served:
        served.script.append(first_page)
        s = Scene(served, heard := Heard(), Follower(served.client, THINGS, heard, lambda: elsewhere))
        async with following(s):
            await s.hears(Upserted("a", "1"), Deleted("gone"))


async def test_a_refresh_waits_for_a_version_that_was_read_after_the_call() -> None:
    async with scene() as s:
        begun, gate = asyncio.Event(), asyncio.Event()

        async def slow(request: Any) -> Any:
            begun.set()
            await gate.wait()
            return await page(version="5")(request)

        s.served.script += [
            page(version="5", then="more"),
            slow,
            page(version="6"),
            s.served.stream(line("ADDED", thing("new", "6"))),
        ]
        async with following(s):
            await begun.wait()
            task = asyncio.create_task(s.follower.refresh())
            await asyncio.sleep(0)
            gate.set()
            async with asyncio.timeout(5):
                await task
            assert s.heard.changes == [Upserted("new", "6")]


async def test_a_refresh_with_a_failed_list_waits_for_the_next_one() -> None:
    async with scene() as s:
        s.served.script.append(page(version="5"))
        async with following(s):
            await s.asks(2)
            s.served.script += [fixed(500), page(thing("a"), version="6")]
            await refreshed(s)
            assert s.heard.changes == [Upserted("a", "1")]
