"""Enforces compute shares: samples GPUs and regions, and writes prices and rates into the regions.

Decides when to sample, and reads and writes the files. ``process_owners`` finds the containers of processes,
``core.pacing`` computes prices and context sizes, ``core.uncounted`` finds memory outside all limits. Without
limited containers nothing is sampled; containers with memory limits only are sampled less often, except for
the contexts of processes that have just started.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import structlog

from gpushare.adapters.cgroups import containers_of
from gpushare.deviceplugin.core.allocations import Enforcement
from gpushare.deviceplugin.core.pacing import (
    ContainerPacing,
    ProcessesByPid,
    busy_percent,
    context_sizes,
    pace,
    unmeasured,
)
from gpushare.deviceplugin.core.uncounted import UncountedProcess, uncounted_beside, uncounted_in
from gpushare.deviceplugin.isolation.manager import EnforcementManager
from gpushare.deviceplugin.isolation.process_owners import ProcessesByGpu, ProcessOwners
from gpushare.deviceplugin.isolation.reporter import UncountedReporter
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.state import NodeState
from gpushare.errors import GpuError, InvalidRequest, SourceError
from gpushare.isolation.files import region_at, write_region
from gpushare.isolation.layout import REGION
from gpushare.isolation.limits import parse
from gpushare.model.modes import Mode
from gpushare.model.readings import ProcessReading
from gpushare.runtime.reasons import Reasons

log = structlog.get_logger()

COMPUTE: Final = "compute"
"""Value of the label ``right`` of the degraded mode metric."""
_CARDS: Final = "cards"
_SECOND_NS: Final = 1_000_000_000
_YOUNG_ROUNDS: Final = 5
"""Rounds in which all containers are sampled after a process has started: two must find the same."""

Enforcements = Mapping[str, Enforcement]
"""Limited containers by container directory."""


class ProcessDriver(Protocol):
    """The driver, for compute shares: the processes on GPUs. Raises GpuError like ``InventoryDriver``."""

    async def processes(self) -> Mapping[str, tuple[ProcessReading, ...]]:
        """Processes by GPU UUID, for the GPUs that list them."""


class PacingRound(NamedTuple):
    """Result of a round: whether all compute shares could be measured, and the uncounted processes.

    ``context_mib`` are the smallest sizes of contexts by GPU UUID.
    """

    measured: bool = True
    uncounted: tuple[UncountedProcess, ...] = ()
    context_mib: Mapping[str, int] = MappingProxyType({})


class PacerTiming(NamedTuple):
    """Seconds between rounds, and between rounds that sample all containers though no process has started.

    ``clock_ns`` returns CLOCK_MONOTONIC, the clock of the times in regions.
    """

    round_s: float = 1.0
    contexts_s: float = 10.0
    clock_ns: Callable[[], int] = time.monotonic_ns


_TIMING: Final = PacerTiming()


class Pacer:
    """Paces the limited containers of one node state."""

    def __init__(
        self,
        node_state: NodeState,
        manager: EnforcementManager,
        driver: ProcessDriver,
        process_owners: ProcessOwners,
        reporter: UncountedReporter,
        metrics: PluginMetrics,
        timing: PacerTiming = _TIMING,
    ) -> None:
        self._node_state = node_state
        self._manager = manager
        self._driver = driver
        self._process_owners = process_owners
        self._reporter = reporter
        self._timing = timing
        self._pacing: dict[str, ContainerPacing] = {}
        self._problems = Reasons()
        self._contexts_at_ns: int | None = None
        self._known_pids: frozenset[int] = frozenset()
        self._young_rounds = 0
        self._sampled_at_ns: int | None = None
        metrics.sample_age.set_function(lambda: self.age_s)

    @property
    def age_s(self) -> float:
        """Age of the last sample for prices; 0 if no container has a compute share."""
        if self._sampled_at_ns is None:
            return 0.0
        return (self._timing.clock_ns() - self._sampled_at_ns) / _SECOND_NS

    async def run(self) -> None:
        """Run rounds until cancelled."""
        while True:
            enforcements = {each.directory: each for each in self._manager.enforcements.values()}
            if not enforcements:
                self._sampled_at_ns = None
                await self._node_state.changed()
                continue
            try:
                await self.round(enforcements)
            except Exception:  # a bug must not end the job; if all rounds fail, the metric of the age rises
                log.exception("pacing_failed")
            await asyncio.sleep(self._timing.round_s)

    async def round(self, enforcements: Enforcements) -> None:
        """Sample the containers that are due now, and write their regions."""
        now_ns = self._timing.clock_ns()
        paced = {directory: each for directory, each in enforcements.items() if each.launches}
        if not paced:
            self._sampled_at_ns = None
        elif self._sampled_at_ns is None:
            self._sampled_at_ns = now_ns
        due = self._contexts_due(now_ns)
        try:
            running = await self._driver.processes()
            everything = self._has_young(running) or due
            if not (everything or paced):
                return
            # In a thread, because containers can make the many files slow to read.
            sampled, cards = (enforcements, self._manager.cards) if everything else (paced, frozenset[str]())
            result = await asyncio.to_thread(self._sample, sampled, running, cards)
        except (GpuError, SourceError, OSError) as error:
            self._log_problem(_CARDS, str(error))
            return
        self._problems.end(_CARDS)
        if due:
            self._contexts_at_ns = now_ns
            self._reporter.report(result.uncounted)
        if everything and self._node_state.allocations.mode is not Mode.MPS:
            self._node_state.apply_contexts(result.context_mib)
        # An old sample is the alarm, so a round that has measured nothing must not renew it.
        if paced and result.measured:
            self._sampled_at_ns = now_ns
        self._pacing = {name: each for name, each in self._pacing.items() if name in enforcements}
        self._problems.keep(enforcements)

    def _has_young(self, running: ProcessesByGpu) -> bool:
        """Whether a process has started lately: its context is measured before it fills the memory."""
        pids = frozenset(each.pid for processes in running.values() for each in processes)
        self._young_rounds = _YOUNG_ROUNDS if pids - self._known_pids else max(0, self._young_rounds - 1)
        self._known_pids = pids
        return self._young_rounds > 0

    def _contexts_due(self, now_ns: int) -> bool:
        """Whether containers without a compute share are sampled too, and uncounted memory is reported."""
        interval_ns = self._timing.contexts_s * _SECOND_NS
        return self._contexts_at_ns is None or now_ns - self._contexts_at_ns >= interval_ns

    def _sample(
        self, enforcements: Enforcements, running: ProcessesByGpu, cards: frozenset[str]
    ) -> PacingRound:
        """Sample these containers, and other processes on ``cards``, by UUID. Raises SourceError."""
        owners = self._process_owners
        located = owners.locate(running)
        busy = {uuid: busy_percent(processes) for uuid, processes in running.items()}
        results = [
            self._sample_one(each, {uuid: on.get(name, {}) for uuid, on in located.limited.items()}, busy)
            for name, each in enforcements.items()
        ]
        others = {uuid: on for uuid, on in located.others.items() if uuid in cards}
        pids = {each.pid for on in others.values() for each in on if not owners.is_mps_server(each.pid)}
        uncounted = (
            *(each for result in results for each in result.uncounted),
            *uncounted_beside(others, containers_of(pids, owners.proc)),
        )
        measured = all(result.measured for result in results)
        return PacingRound(measured, uncounted, _smallest(result.context_mib for result in results))

    def _sample_one(
        self, enforcement: Enforcement, processes: Mapping[str, ProcessesByPid], busy: Mapping[str, int]
    ) -> PacingRound:
        """Sample one container; by GPU UUID, its processes and the percentage of time used by all."""
        name = enforcement.directory
        # Nothing to pace and no process to measure: do not touch its files.
        if not (enforcement.launches or any(processes.values())):
            return PacingRound()
        try:
            limits = parse(enforcement.limit)
            path = self._process_owners.state / name / REGION
            region = region_at(path, limits)
            before = self._pacing.get(name, ContainerPacing())
            on = [processes.get(limit.uuid) for limit in limits]
            contended = {uuid for uuid, own in processes.items() if busy_percent(own.values()) < busy[uuid]}
            pacing, writes = pace(limits, region, on, self._timing.clock_ns(), before, contended)
            if writes:
                write_region(path, writes)
        except (OSError, SourceError, InvalidRequest) as error:
            self._pacing.pop(name, None)
            self._log_problem(name, str(error))
            return PacingRound()
        self._problems.end(name)
        self._pacing[name] = pacing
        uncounted = tuple(uncounted_in(name, limits, region, processes))
        return PacingRound(not unmeasured(limits, pacing), uncounted, context_sizes(limits, region, pacing))

    def _log_problem(self, what: str, problem: str) -> None:
        if self._problems.is_new(problem, what):
            log.warning("not_paced", what=what, reason=problem, effect="prices of launches are not updated")


def _smallest(found: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    """The smallest number of each key."""
    smallest: dict[str, int] = {}
    for key, number in (item for each in found for item in each.items()):
        smallest[key] = min(number, smallest.get(key, number))
    return smallest
