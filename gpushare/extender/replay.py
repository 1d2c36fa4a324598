"""The placement policy ``replay`` beside the event loop: a thread owns the engine and learns.

The loop gives the thread immutable ledgers. An answer that takes too long is not waited for: kube-scheduler
then gets the scores of best fit, and the thread ends its work for the next pod of this kind.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import structlog

from gpushare.adapters.kube.pod_loads import ObservedPod
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.model.demand import Demand
from gpushare.model.gpu_choice import GpuChoice
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.placement.replay.engine import Engine
from gpushare.scheduling.placement.replay.needs import Need, Room
from gpushare.scheduling.placement.replay.points import Place, points
from gpushare.scheduling.placement.replay.rooms import Models, empty_room_of, need_of, room_of
from gpushare.scheduling.placement.replay.sample import Sample

log = structlog.get_logger()

WAIT_S: Final = 0.05
"""The longest wait for the losses of all nodes. Most take a millisecond, those after learning up to 35."""
_MOST_WAITING: Final = 4
"""Evaluations that wait for the thread; kube-scheduler asks for one after the other."""
LEARN_S: Final = 0.1
"""The shortest time between two looks at the pods that have arrived: the first lessons come after few."""


class _Arrival(NamedTuple):
    created: str
    need: Need
    choice: GpuChoice | None
    node: str | None


class _Learner:
    """What the thread owns."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sample = Sample()
        self._models = Models()

    def losses(
        self, ledger: Ledger, changes: Iterable[tuple[int, str]], need: Need, nodes: Sequence[int]
    ) -> Sequence[int]:
        """The losses of nodes, once the changed ones are as in the ledger."""
        self._put(ledger, changes)
        return self._engine.losses(need, nodes)

    def _put(self, ledger: Ledger, changes: Iterable[tuple[int, str]]) -> None:
        for number, name in changes:
            self._engine.put(number, self._room(ledger, name))

    def _room(self, ledger: Ledger, name: str) -> Room | None:
        book, free = ledger.books.get(name), ledger.free(name)
        return None if book is None or free is None else room_of(book, free, self._models.number(book))

    def learn(self, ledger: Ledger, changes: Iterable[tuple[int, str]], arrived: Iterable[_Arrival]) -> None:
        """See pods, and learn once if it is due."""
        # First, because it numbers the models of nodes.
        self._put(ledger, changes)
        due = [
            self._sample.see(each.need._replace(models=self._models.allowed(each.choice))) for each in arrived
        ]
        if any(due):
            self._engine.learn(self._sample.sequences(self._empty(ledger)))

    def _empty(self, ledger: Ledger) -> list[Room]:
        return [
            empty_room_of(book, book.node.allocatable, self._models.number(book))
            for book in ledger.books.values()
            if book.node and book.node.cards and book.node.allocatable
        ]


class ReplayScores:
    """Scores of nodes by replay. All calls come from the event loop."""

    def __init__(self, engine: Engine, metrics: ExtenderMetrics, wait_s: float = WAIT_S) -> None:
        self._learner = _Learner(engine)
        self._thread = ThreadPoolExecutor(1, "replay")
        self._late = metrics.replay_late
        self._wait_s = wait_s
        self._waiting = 0
        self._numbers: dict[str, int] = {}
        self._spare: list[int] = []
        self._places: dict[str, Place] = {}
        self._unlisted: set[str] = set()
        self._changed: set[str] = set()
        self._arrived: list[_Arrival] = []
        self._news = asyncio.Event()

    def follow(self, ledger: Ledger) -> None:
        """Note what the last events have changed."""
        self._changed |= ledger.changed

    def arrived(self, pod: ObservedPod) -> None:
        """Note a pod to learn from."""
        if not pod.chooses:
            return
        demand = pod.managed.demand if pod.managed else None
        if isinstance(demand, Demand):
            need, choice = need_of(demand, pod.load.requested), demand.gpus
        elif demand is None:
            need, choice = Need(*pod.load.requested, 0, 0), None
        else:
            return
        self._arrived.append(_Arrival(pod.created, need, choice, pod.load.node))
        self._news.set()

    async def scores(self, ledger: Ledger, need: Need, names: Sequence[str]) -> dict[str, int] | None:
        """The scores of these nodes; None if they are not known in time, or the pod fits nowhere."""
        losses = await self._losses(ledger, need, names)
        return None if losses is None else points(names, losses, self._places, self._unlisted)

    async def _losses(self, ledger: Ledger, need: Need, names: Sequence[str]) -> Sequence[int] | None:
        if self._waiting >= _MOST_WAITING:
            self._late.inc()
            return None
        changes = self._take_changes(ledger)
        nodes = [self._numbers.get(name, -1) for name in names]
        self._waiting += 1
        job = asyncio.get_running_loop().run_in_executor(
            self._thread, self._learner.losses, ledger, changes, need, nodes
        )
        job.add_done_callback(self._ended)
        await asyncio.wait({job}, timeout=self._wait_s)
        if not job.done():
            self._late.inc()
            return None
        return None if job.cancelled() or job.exception() else job.result()

    def _ended(self, job: "asyncio.Future[Sequence[int]]") -> None:
        self._waiting -= 1
        if not job.cancelled() and (error := job.exception()):
            log.error("replay_failed", error=str(error), effect="scores are those of best fit")

    def _take_changes(self, ledger: Ledger) -> list[tuple[int, str]]:
        """The changed nodes with their numbers. A node that is gone leaves its number to the next one."""
        changed, self._changed = self._changed, set()
        return [(self._number(ledger, name), name) for name in changed]

    def _number(self, ledger: Ledger, name: str) -> int:
        book = ledger.books.get(name)
        number = self._numbers.get(name)
        if number is None:
            number = self._spare.pop() if self._spare else len(self._numbers)
        if book is None:
            self._forget(name)
            self._spare.append(number)
            return number
        self._numbers[name] = number
        self._places[name] = (len(book.usages), name)
        if all(usage.card.is_listed for usage in book.usages):
            self._unlisted.discard(name)
        else:
            self._unlisted.add(name)
        return number

    def _forget(self, name: str) -> None:
        self._numbers.pop(name, None)
        self._places.pop(name, None)
        self._unlisted.discard(name)

    async def run(self, ledger: Callable[[], Ledger], synced: asyncio.Event) -> None:
        """Learn until cancelled, once all pods and nodes are listed."""
        await synced.wait()
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self.learn(ledger())
            except Exception:  # scores are advice: without them the extender works on
                log.exception("replay_failed", effect="it has not learned from the last pods")
            await asyncio.sleep(LEARN_S)

    async def learn(self, ledger: Ledger) -> None:
        """Learn from the pods that have arrived; of those without GPUs, from pods on nodes with GPUs."""
        arrived, self._arrived = sorted(self._arrived, key=lambda each: each.created), []
        seen = [each for each in arrived if each.need.gpus or _shares(ledger, each.node)]
        if seen:
            await asyncio.get_running_loop().run_in_executor(
                self._thread, self._learner.learn, ledger, self._take_changes(ledger), seen
            )


def _shares(ledger: Ledger, name: str | None) -> bool:
    book = ledger.books.get(name) if name else None
    return book is not None and bool(book.usages)
