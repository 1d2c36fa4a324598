"""One soak from start to end: load, faults, checks, and the summary.

What belongs here: the order of things. What does not: decisions (``schedule``, ``records``), single actions.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from devkit.waiting import meanwhile, together
from gpushare.errors import ApiError, KubeletError
from testbed import DevkitError, until
from tests.soak.actions import Action, Verb, kind_of
from tests.soak.cluster import Cluster, soak_cluster
from tests.soak.judging import overcommitted, too_many
from tests.soak.nodes import Node
from tests.soak.performing import Performer
from tests.soak.pods import Pods
from tests.soak.processes import Keeper
from tests.soak.reading import cards_in_use, read_records, scheduling
from tests.soak.records import problems
from tests.soak.schedule import schedule
from tests.soak.summary import Summary
from tests.soak.units import Units
from tests.support.history import Entry

_REST_S: Final = 150.0
"""A take-over of the Lease, the backoff of a container and of a pod, on a slow machine."""
_RECOUNT_S: Final = 0.25
_LAST: Final = 25

Say = Callable[[str], None]


class SoakFailed(AssertionError):
    """A soak has found something; the text has the seed, the last actions and the differences."""


@dataclass
class Watch:
    """What the checker has seen on the nodes with kubelets, in the OCI specs of running containers."""

    cluster: Cluster
    over: list[str] = field(default_factory=list)
    recounts: Counter[str] = field(default_factory=Counter)

    async def recount(self) -> None:
        """Look for GPUs with more units in use than they have, until cancelled."""
        await together(self._recount(each) for each in self.cluster.nodes.values())

    async def _recount(self, node: Node) -> None:
        while True:
            # A node that reboots does not answer, or not to the end; at rest every node has to.
            with suppress(DevkitError, OSError, ValueError):
                in_use = cards_in_use(node, await node.containers())
                self.over += too_many({(node.name, uid): cards for uid, cards in in_use.items()})
                self.recounts[kind_of(node.name)] += 1
            await asyncio.sleep(_RECOUNT_S)


@dataclass
class Soak:
    """A running soak."""

    cluster: Cluster
    keeper: Keeper
    units: Units
    pods: Pods
    watch: Watch
    say: Say
    ending: asyncio.Event
    performed: deque[Action] = field(default_factory=lambda: deque(maxlen=_LAST))
    counts: Counter[str] = field(default_factory=Counter)
    load_s: float = 0
    recoveries: list[float] = field(default_factory=list)

    @property
    def exits(self) -> Counter[str]:
        """The processes that ended by themselves."""
        return self.keeper.exits + self.units.exits

    async def perform(self, actions: Sequence[Action]) -> None:
        """Carry out a schedule, and wait for rest at each check; one is the last if the soak is ending."""
        performer = Performer(self.cluster, self.pods, self.keeper, self.units)
        began = time.monotonic()
        try:
            for each in actions:
                self.counts[str(each.verb)] += 1
                if each.verb is Verb.CHECK:
                    paused = time.monotonic()
                    await self._check(performer, each)
                    began += time.monotonic() - paused
                    self.load_s = each.at_s
                    if self.ending.is_set():
                        return
                else:
                    await asyncio.sleep(max(0.0, began + each.at_s - time.monotonic()))
                    self.performed.append(each)
                    performer.begin(each)
                    performer.failed()
        finally:
            await performer.cancel()

    async def _check(self, performer: Performer, action: Action) -> None:
        began = time.monotonic()
        await performer.settled()
        await self.keeper.all_run()
        await self.units.all_run()
        last = await self._at_rest()
        self.recoveries.append(time.monotonic() - began)
        self.no_overcommit(await self.cluster.recorder.caught_up())
        cause = f"; the last difference: {last[0]}" if last else ""
        self.say(f"{action.at_s:.0f} s of load: all records agree after {self.recoveries[-1]:.1f} s{cause}")

    async def _at_rest(self) -> list[str]:
        """Wait until every pod that fits runs, and all records agree; return what was wrong before that."""
        wrong = last = list[str]()

        async def rests() -> bool:
            nonlocal wrong, last
            try:
                wrong = problems(await read_records(self.cluster, self.pods))
            except (ApiError, KubeletError, DevkitError, OSError, ValueError, LookupError) as error:
                wrong = [f"a record cannot be read: {error!r}"]
            last = wrong or last
            return not wrong

        try:
            await until(rests, "all records to agree", _REST_S, 0.5)
        except DevkitError as error:
            raise SoakFailed("\n".join([str(error), *wrong, *await scheduling(self.cluster)])) from None
        return last

    def no_overcommit(self, history: Iterable[Entry]) -> None:
        """Raise SoakFailed if a GPU had too many units at some moment."""
        over = [*self.watch.over, *overcommitted(history)]
        if over:
            raise SoakFailed("\n".join([f"{len(over)} moments of over-commitment", *over[:10]]))


async def soak(
    seed: int, minutes: float, say: Say, *, name: str | None = None, ending: asyncio.Event | None = None
) -> Summary:
    """Run a soak on a new cluster; the logs of one with a name stay. ``ending`` ends it at the next check.

    Raises SoakFailed with the seed, the last actions and the differences.
    """
    actions = schedule(seed, minutes)
    began = time.monotonic()
    async with soak_cluster(name) as cluster:
        keeper, units, pods = Keeper(cluster.processes), Units(cluster.machines), Pods(cluster)
        running = Soak(cluster, keeper, units, pods, Watch(cluster), say, ending or asyncio.Event())
        say(f"seed {seed}: {len(actions)} actions in {minutes:g} minutes of load")
        try:
            async with keeper.keeping(), meanwhile(pods.own()), meanwhile(running.watch.recount()):
                await running.perform(actions)
        except Exception as error:
            await units.save_journals(cluster.bed.folder)
            raise SoakFailed(_report(seed, minutes, running, str(error))) from error
        return _summary(seed, running, time.monotonic() - began)


def _report(seed: int, minutes: float, running: Soak, text: str) -> str:
    return "\n".join(
        [
            f"SEED={seed} MINUTES={minutes:g}: {text}",
            f"ended by themselves: {dict(running.exits)}",
            f"created again: {dict(running.pods.replaced)} {running.pods.messages}",
            "the last actions:",
            *map(str, running.performed),
        ]
    )


def _summary(seed: int, running: Soak, seconds: float) -> Summary:
    history = running.cluster.recorder.entries
    return Summary(
        seed=seed,
        minutes=round(running.load_s / 60, 1),
        seconds=round(seconds),
        actions=dict(running.counts),
        created=len({pod["metadata"]["uid"] for _, pod in history}),
        ran=_by_node(history, "Running"),
        finished=_by_node(history, "Succeeded"),
        replaced=dict(running.pods.replaced),
        exits=dict(running.exits),
        recounts=dict(running.watch.recounts),
        longest_recovery_s=round(max(running.recoveries), 1),
    )


def _by_node(history: Iterable[Entry], phase: str) -> dict[str, int]:
    """Kind of node → number of pods that were in a phase."""
    found = {pod["metadata"]["uid"]: pod for _, pod in history if pod["status"].get("phase") == phase}
    return dict(Counter(kind_of(pod["spec"]["nodeName"]) for pod in found.values()))
