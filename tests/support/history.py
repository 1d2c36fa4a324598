"""Checks for over-commitment in the history of pods that a watch returned.

It shares no code with the product on purpose: it reads the annotations and sums the units itself.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp

from testbed.control_plane.api import Api
from tests.support.waiting import until

Entry = tuple[str, dict[str, Any]]
"""(ADDED, MODIFIED or DELETED; the pod)."""


@dataclass(frozen=True)
class OverCommit:
    """One moment at which the pods on a GPU had more units than it has."""

    node: str
    card: int
    units: int
    size: int
    pods: tuple[str, ...]


def units_of(pod: Mapping[str, Any]) -> int:
    """The sum of the limits of the regular containers; enough for the pods of these tests."""
    return sum(
        int(c.get("resources", {}).get("limits", {}).get("aliyun.com/gpu-mem", 0))
        for c in pod["spec"]["containers"]
    )


def cards_of(pod: Mapping[str, Any]) -> dict[int, int]:
    """GPU → units in the pod's allocation annotation."""
    text = pod["metadata"].get("annotations", {}).get("scheduler.framework.gpushare.allocation", "{}")
    cards: dict[int, int] = defaultdict(int)
    for container in json.loads(text).values():
        for card, units in container.items():
            cards[int(card)] += units
    return dict(cards)


def has_units(pod: Mapping[str, Any]) -> bool:
    """Whether an existing pod has its units: it is bound and not finished."""
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in ("Succeeded", "Failed")


def overcommits(history: Iterable[Entry], size: int) -> list[OverCommit]:
    """All moments of the history at which a GPU of ``size`` units was over-committed."""
    pods: dict[str, dict[str, Any]] = {}
    found = []
    for kind, pod in history:
        uid = pod["metadata"]["uid"]
        pods.pop(uid, None)
        if kind != "DELETED" and has_units(pod):
            pods[uid] = pod
            found += _over(pods, pod["spec"]["nodeName"], size)
    return found


def _over(pods: Mapping[str, dict[str, Any]], node: str, size: int) -> list[OverCommit]:
    per_card: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for pod in pods.values():
        if pod["spec"]["nodeName"] == node:
            for card, units in cards_of(pod).items():
                per_card[card].append((pod["metadata"]["name"], units))
    return [
        OverCommit(node, card, total, size, tuple(name for name, _ in shares))
        for card, shares in per_card.items()
        if (total := sum(units for _, units in shares)) > size
    ]


@dataclass
class Recorder:
    """Records the changes of all pods from its start on, and relists after a lost connection.

    ``path`` is the list of pods: all, or those of a namespace.
    """

    api: Api
    path: str = "/api/v1/pods"
    entries: list[Entry] = field(default_factory=list)
    _version: str = "0"
    _known: dict[str, dict[str, Any]] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._list()
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def caught_up(self) -> list[Entry]:
        """The history up to now, with all that a list returns."""
        listed = await self.api.get(self.path)
        seen = {p["metadata"]["uid"]: p["metadata"]["resourceVersion"] for p in listed["items"]}
        await until(lambda: all(self._at(uid) >= int(version) for uid, version in seen.items()), poll_s=0.05)
        return self.entries

    def _at(self, uid: str) -> int:
        return int(self._known[uid]["metadata"]["resourceVersion"]) if uid in self._known else -1

    async def _follow(self) -> None:
        while True:
            try:
                await self._watch()
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError, LookupError):
                await asyncio.sleep(0.1)
                await self._relist()

    async def _relist(self) -> None:
        while True:
            try:
                return await self._list()
            except Exception:  # noqa: BLE001 - a test may stop the API server in any way
                await asyncio.sleep(0.1)

    async def _list(self) -> None:
        """Record what the watch missed, with the current state of each pod."""
        listed = await self.api.get(self.path)
        now = {pod["metadata"]["uid"]: pod for pod in listed["items"]}
        for uid in set(self._known) - set(now):
            self._enter("DELETED", self._known[uid])
        for uid, pod in now.items():
            if self._known.get(uid) != pod:
                self._enter("MODIFIED", pod)
        self._version = listed["metadata"]["resourceVersion"]

    async def _watch(self) -> None:
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={self._version}"
        async with self.api._open().get(
            f"{self.api.url}/api/v1/pods?{query}", timeout=aiohttp.ClientTimeout(total=None, sock_connect=3)
        ) as reply:
            reply.raise_for_status()
            rest = b""
            async for chunk in reply.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
        raise TimeoutError

    def _take(self, event: dict[str, Any]) -> None:
        if event["type"] == "ERROR":
            raise ValueError(event["object"])
        self._version = event["object"]["metadata"]["resourceVersion"]
        if event["type"] != "BOOKMARK":
            self._enter(event["type"], event["object"])

    def _enter(self, kind: str, pod: dict[str, Any]) -> None:
        self.entries.append((kind, pod))
        if kind == "DELETED":
            self._known.pop(pod["metadata"]["uid"], None)
        else:
            self._known[pod["metadata"]["uid"]] = pod
