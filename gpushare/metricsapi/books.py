"""The books of all nodes, kept by watches and made when they are asked for. No I/O.

A change marks the book of its node; the next request makes the marked ones again, in slices of the event
loop. The books name no pods: a user may know those of one namespace only, and ``named_for`` names them.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Mapping
from typing import Final

from gpushare.model.modes import CGPU_PODS
from gpushare.model.objects import Pod
from gpushare.overview.explain.for_tenants import name_for, node_for
from gpushare.overview.fits import NodeRoom, node_room
from gpushare.overview.ledger_inputs import node_of
from gpushare.overview.objects import ClusterNode
from gpushare.runtime.fairness import TimeSlices
from gpushare.scheduling.book import Book
from gpushare.scheduling.snapshot import books_of

_NOBODY: Final = None


class Books:
    """``nodes`` are the nodes by name."""

    def __init__(self, slices: TimeSlices) -> None:
        self.nodes: dict[str, ClusterNode] = {}
        self._slices = slices
        self._pods: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._books: dict[str, Book] = {}
        self._rooms: dict[str, NodeRoom] = {}
        self._stale: set[str] = set()
        self._making = asyncio.Lock()
        self._unhealthy: Mapping[str, frozenset[int]] = {}
        self._cgpu_pods = CGPU_PODS

    def change_node(self, name: str, node: ClusterNode | None) -> None:
        """Apply a node; None if it is gone, or cannot be read."""
        if node == self.nodes.get(name):
            return  # a heartbeat
        if node is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = node
        self._stale.add(name)

    def change_pod(self, before: Pod | None, after: Pod | None) -> None:
        """Apply a pod that requests units; None if there was none, or is none any more."""
        for name in nodes_of(before):
            assert before is not None  # noqa: S101 - it has nodes
            self._pods[name].pop(before.uid, None)
            if not self._pods[name]:
                del self._pods[name]
            self._stale.add(name)
        for name in nodes_of(after):
            assert after is not None  # noqa: S101 - it has nodes
            self._pods[name][after.uid] = after
            self._stale.add(name)

    def change_settings(self, unhealthy: Mapping[str, frozenset[int]], cgpu_pods: int) -> None:
        """Apply the lists of unhealthy GPUs, and the extender's maximum of pods on a GPU."""
        if cgpu_pods != self._cgpu_pods:
            self._stale |= self.nodes.keys()
        names = unhealthy.keys() | self._unhealthy.keys()
        self._stale |= {each for each in names if unhealthy.get(each) != self._unhealthy.get(each)}
        self._unhealthy, self._cgpu_pods = dict(unhealthy), cgpu_pods

    async def latest(self) -> dict[str, Book]:
        """The book of each node by name."""
        async with self._making:
            if self._stale:
                await self._slices.run(self._steps())
        return dict(self._books)

    async def rooms(self) -> Collection[NodeRoom]:
        """What each node with GPUs can take."""
        await self.latest()
        return tuple(self._rooms.values())

    def of_node(self, name: str) -> Book | None:
        """The book of one node; None if there is no such node."""
        if name in self._stale:
            self._stale.discard(name)
            self._make(name)
        return self._books.get(name)

    async def named_for(self, namespace: str, names: Iterable[str]) -> dict[str, Book]:
        """The book of each node, in which the pods of the namespace, all on ``names``, have their names."""
        books = await self.latest()
        return books | await self._slices.run(self._naming_steps(namespace, names))

    def _naming_steps(self, namespace: str, names: Iterable[str]) -> Generator[None, None, dict[str, Book]]:
        found: dict[str, Book] = {}
        for name in names:
            if name in self.nodes:
                found[name] = self._book(name, namespace)
                yield
        return found

    def _steps(self) -> Generator[None, None, None]:
        while self._stale:
            self._make(self._stale.pop())
            yield

    def _make(self, name: str) -> None:
        node = self.nodes.get(name)
        if node is None:
            self._books.pop(name, None)
            self._rooms.pop(name, None)
            return
        book = self._books[name] = self._book(name, _NOBODY)
        room = node_room(node, book)
        if room:
            self._rooms[name] = room
        else:
            self._rooms.pop(name, None)

    def _book(self, name: str, namespace: str | None) -> Book:
        node = node_for(node_of(self.nodes[name], self._cgpu_pods), namespace)
        pods = self._pods.get(name, {}).values()
        return books_of([node], pods, self._unhealthy, name_for(namespace))[name]


def nodes_of(pod: Pod | None) -> set[str]:
    """The nodes whose books have the pod: its node, or the one to which it is nominated."""
    if pod is None or pod.finished:
        return set()
    return {name for name in (pod.node, None if pod.node else pod.nominated) if name}
