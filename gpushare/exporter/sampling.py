"""The sampler: reads all sources once per interval, each with a deadline, into one snapshot.

A source that fails or times out is missing from this snapshot; the others are unaffected. Each outage is
logged once, a defect with its traceback.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog

from gpushare.adapters.cgroups import containers_of
from gpushare.adapters.cpus import cpus_beside, cpus_of
from gpushare.adapters.kube.informer import Informer
from gpushare.adapters.kubelet.podresources import PodResources
from gpushare.adapters.pids import check_visible
from gpushare.contract import ANN_ASSIGNED_NODE, ANN_CARDS
from gpushare.errors import ApiError, ConfigError, DriverReplacedError, GpuShareError
from gpushare.exporter.regions import isolation_of
from gpushare.exporter.settings import ExporterSettings
from gpushare.exporter.snapshot import (
    CGROUPS,
    CPUS,
    ISOLATION,
    NODE,
    NVML,
    POD_RESOURCES,
    PODS,
    SOURCES,
    CpuState,
    NodeSnapshot,
)
from gpushare.model.hardware import SHARES_HOST_MEMORY
from gpushare.model.local_node import ContainerRef, LocalNode, LocalPod
from gpushare.model.objects import Node, node_of
from gpushare.model.readings import Readings
from gpushare.ports import MeterDriver

log = structlog.get_logger()
T = TypeVar("T")


class Sampler:
    """Keeps the last snapshot and its age."""

    def __init__(
        self,
        settings: ExporterSettings,
        meters: MeterDriver,
        pods: Informer[LocalPod],
        node: Informer[LocalNode],
        *,
        clock: Callable[[], float] = time.monotonic,
        sysfs: Path = Path("/sys"),
    ) -> None:
        self._settings = settings
        self._sysfs = sysfs
        self._meters = meters
        self._kubelet = PodResources(settings.pod_resources_socket, timeout_s=settings.deadline_seconds)
        self._pods = pods
        self._node = node
        self._sources = {name: _Source(name, settings.deadline_seconds) for name in SOURCES}
        self._unreadable: dict[str, Mapping[Any, str]] = {}
        self._clock = clock
        self._read_at = clock()
        self.snapshot: NodeSnapshot | None = None

    @property
    def age_s(self) -> float:
        """Return the age of the last snapshot, or the time since the start without one."""
        return self._clock() - self._read_at

    async def run(self, updated: Callable[[], None]) -> None:
        """Read until cancelled; call ``updated`` after each new snapshot. Raises DriverReplacedError."""
        with suppress(TimeoutError):
            # GPU metrics must appear soon even if the API server is unavailable.
            async with asyncio.timeout(self._settings.deadline_seconds):
                await asyncio.gather(self._pods.listed.wait(), self._node.listed.wait())
        while True:
            begun = self._clock()
            try:
                self.snapshot = await self.read()
                updated()
                # Last: a snapshot that could not be rendered does not keep the exporter alive.
                self._read_at = begun
            except DriverReplacedError:
                raise
            except Exception:  # a defect costs one round; if all fail, the liveness probe does too
                log.exception("round_failed")
            await asyncio.sleep(max(0.0, begun + self._settings.interval_seconds - self._clock()))

    async def read(self) -> NodeSnapshot:
        """Read every source once. Raises DriverReplacedError: no later round would read the GPUs."""
        readings, devices = await asyncio.gather(
            self._sources[NVML].read(self._meters.readings),
            self._sources[POD_RESOURCES].read(self._kubelet.list),
        )
        if readings:
            self._log_unreadable("card", readings.unreadable)
            self._log_unreadable("memory", _without_memory(readings))
        pids, proc = _pids(readings), self._settings.proc_root
        # In a second step: all need the processes that the driver lists.
        containers_by_pid, isolation, cpus = await asyncio.gather(
            self._sources[CGROUPS].read(partial(asyncio.to_thread, _containers_by_pid, pids, proc)),
            self._sources[ISOLATION].read(
                partial(asyncio.to_thread, isolation_of, self._settings.isolation_state, pids, proc)
            ),
            self._sources[CPUS].read(partial(asyncio.to_thread, _cpus, readings, proc, self._sysfs)),
        )
        if isolation:
            self._log_unreadable("region", isolation.unreadable)
        return NodeSnapshot(
            self._settings.node_name,
            readings=readings,
            containers_by_pid=containers_by_pid,
            devices=devices,
            local_pods=await self._sources[PODS].read(partial(self._latest, self._pods)),
            node=await self._sources[NODE].read(self._local_node),
            isolation=isolation,
            cpus=cpus,
            took_s={name: source.took_s for name, source in self._sources.items()},
            failures={name: source.failures for name, source in self._sources.items()},
            at=time.time(),
        )

    async def _latest(self, informer: Informer[T]) -> tuple[T, ...]:
        found = informer.latest(self._settings.stale_seconds)
        if found is None:
            raise ApiError("not listed yet, or the watch of the API server was lost for too long")
        return found

    async def _local_node(self) -> Node:
        """Return the node. Raises ConfigError if the cluster has no node of that name."""
        found = await self._latest(self._node)
        if not found:
            raise ConfigError(f"NODE_NAME={self._settings.node_name!r}: no such node in the cluster")
        return _node_of(found[0])

    def _log_unreadable(self, what: str, unreadable: Mapping[Any, str]) -> None:
        """Log each problem once, until its reason changes."""
        event, before = f"{what}_unreadable", self._unreadable.get(what, {})
        for name, reason in unreadable.items():
            if before.get(name) != reason:
                log.warning(event, **{what: name}, reason=reason)
        self._unreadable[what] = unreadable


def _without_memory(readings: Readings) -> Mapping[str, str]:
    """The GPUs whose memory is that of the host, with the reason for missing series."""
    return {
        card.uuid: f"GPU {card.index} ({card.model}): {SHARES_HOST_MEMORY}"
        for card in readings.cards
        if card.total_bytes is None
    }


class _Source:
    """One source. ``took_s`` is the duration of the last read, ``failures`` counts reads without a result."""

    def __init__(self, name: str, deadline_s: float) -> None:
        self._name = name
        self.took_s = 0.0
        self.failures = 0
        self._deadline_s = deadline_s
        self._down = False
        self._defect: type[Exception] | None = None

    async def read(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result; None on timeout or error. Raises DriverReplacedError.

        The source is not asked if the read is cancelled before it begins.
        """
        begun = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline_s):
                answer = await ask()
        except TimeoutError:
            self._failed(f"no response within {self._deadline_s:g} s")
            return None
        except DriverReplacedError:
            raise
        except GpuShareError as error:
            self._failed(str(error))
            return None
        except Exception as error:  # a defect costs the series of this source, not those of the others
            if type(error) is not self._defect:  # the first of its type in this outage
                log.exception("source_defect", source=self._name)
            self._defect = type(error)
            self._count_failure()
            return None
        finally:
            self.took_s = time.monotonic() - begun
        if self._down:
            log.info("source_up", source=self._name)
        self._down, self._defect = False, None
        return answer

    def _failed(self, reason: str) -> None:
        if not self._down:
            log.warning("source_down", source=self._name, reason=reason)
        self._count_failure()

    def _count_failure(self) -> None:
        self.failures += 1
        self._down = True


def _pids(readings: Readings | None) -> frozenset[int]:
    cards = readings.cards if readings else ()
    return frozenset(process.pid for card in cards for process in card.processes or ())


def _containers_by_pid(pids: frozenset[int], proc: Path) -> dict[int, ContainerRef | None]:
    """Return the container of each process. Raises SourceError if the host's processes are not visible."""
    check_visible(pids, proc)
    return containers_of(pids, proc)


def _cpus(readings: Readings | None, proc: Path, sysfs: Path) -> CpuState:
    cards = readings.cards if readings else ()
    beside = {card.uuid: found for card in cards if (found := cpus_beside(card.pci, sysfs))}
    return CpuState(cpus_of(_pids(readings), proc), beside)


def _node_of(facts: LocalNode) -> Node:
    return node_of(
        facts.name,
        capacity=facts.capacity,
        labels=facts.labels,
        cards_text=facts.annotations.get(ANN_CARDS),
        assigned_text=facts.annotations.get(ANN_ASSIGNED_NODE),
    )
