"""Serves Allocate calls one at a time: match the container, decide, write files and record, respond.

The kubelet never repeats a call for a pod that was rejected. So a call waits for a pod that is not known
yet, and for a GPU that its last pod has not released. All waits of a call share one deadline: the kubelet
sets none, but admits no other pod meanwhile. Files and record are on disk before the response leaves.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from gpushare.contract import EVENT_REFUSED
from gpushare.deviceplugin.core.allocations import Allocation, Key, choose, core_fits
from gpushare.deviceplugin.core.decision import (
    Allocated,
    CallDecision,
    decide_call,
    no_core,
    no_core_left,
)
from gpushare.deviceplugin.core.interface import AllocateResponse, Rejected
from gpushare.deviceplugin.core.matching import (
    AllocateCall,
    Match,
    contested,
    core_only,
    match,
    match_core,
    twin_with_core,
)
from gpushare.deviceplugin.core.response import ResponseSettings, failing_response, response_for
from gpushare.deviceplugin.isolation.manager import EnforcementManager
from gpushare.deviceplugin.kubelet.retries import PodSources, Retries
from gpushare.deviceplugin.node.checkpoint import Observer
from gpushare.deviceplugin.node.release import GpuReleaser
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.errors import ConfigError
from gpushare.model.options import MemoryUnit
from gpushare.ports import KubeEvent, pod_event
from gpushare.runtime.recent import RecentEvents
from gpushare.scheduling.fitting import Rejection

log = structlog.get_logger()

TIMEOUT_S: Final = 5.0
_PREFERENCE_S: Final = 1.0
"""How long GetPreferredAllocation waits for a pod that the API server has not shown yet."""
_REJECTIONS: Final = 5
_REJECTIONS_PERIOD_S: Final = 600.0
"""After that many rejected pods of a workload within the period, its containers fail instead."""
_TOO_OFTEN: Final = (
    f"{_REJECTIONS} pods of this workload were rejected within {_REJECTIONS_PERIOD_S / 60:.0f} minutes: this "
    "one is admitted, and its container does not start; delete the pod once the cause is gone"
)
_STUCK_S: Final = 30.0
"""After its deadline a call waits for the disk alone; the watchdog allows it this long."""


@dataclass(frozen=True, slots=True)
class AllocateSettings:
    """Policy of Allocate: the form of responses, the unit, and the longest wait in seconds.

    ``legacy_failure_env`` answers a rejection as the Aliyun plugin does: with an environment that makes the
    container fail at its start, instead of an error.
    """

    response: ResponseSettings
    unit: MemoryUnit
    legacy_failure_env: bool = False
    timeout_s: float = TIMEOUT_S


class Allocator:
    """Serves the calls for both resources of one node. ``record_event`` receives events.

    ``lock`` is held while a call is answered.
    """

    def __init__(
        self,
        observer: Observer,
        releaser: GpuReleaser,
        enforcement: EnforcementManager,
        settings: AllocateSettings,
        *,
        sources: PodSources,
        record_event: Callable[[KubeEvent], None],
        watchdog: Watchdog,
    ) -> None:
        self._settings = settings
        self._observer = observer
        self._node_state = observer.node_state
        self._releaser = releaser
        self._enforcement = enforcement
        self._kubelet = sources.kubelet
        self._retries = Retries(observer.node_state, sources)
        self._record_event = record_event
        self._watchdog = watchdog
        self.lock = asyncio.Lock()
        self._core_percent: int | None = None
        self._last_allocation: Allocation | None = None
        self._rejected: frozenset[Key] = frozenset()
        self._rejections: RecentEvents[str] = RecentEvents(_REJECTIONS_PERIOD_S)

    async def allocate_mem(self, ids: Sequence[str]) -> AllocateResponse | Rejected:
        """The response for a container that gets these device IDs of ``gpu-mem``."""
        deadline = self._deadline()
        with self._watchdog.work("allocate", self._settings.timeout_s + _STUCK_S):
            async with self.lock:
                self._last_allocation = None
                outcome = await self._allocate(tuple(ids), deadline)
                # Both calls of a container follow each other, so the percentage holds for this call only.
                self._core_percent = None
        return outcome

    async def _allocate(self, ids: tuple[str, ...], deadline: float) -> AllocateResponse | Rejected:
        if reason := self._node_state.not_serving_reason:
            return self._reject(Rejected("not_serving", reason), None)
        decision = await self._retries.until(lambda: self._decide(ids), lambda each: each.final, deadline)
        if isinstance(decision.outcome, Rejected):
            return self._reject(decision.outcome, decision.found)
        return await self._perform(decision.outcome)

    async def _decide(self, ids: tuple[str, ...]) -> CallDecision:
        """Observe the node, and decide on the call.

        Nothing is awaited between the last observation and the commit to the node state.
        """
        call = AllocateCall(len(ids), ids, self._core_percent, self._rejected)
        snapshot = self._observer.observe()
        terminating: frozenset[str] = frozenset()
        if snapshot.terminated:
            terminating = await self._releaser.release(snapshot.terminated)
            snapshot = self._observer.observe()
        if contested(snapshot, call):
            call = replace(call, known=await self._kubelet.names())
            snapshot = self._observer.observe()
        return decide_call(
            snapshot,
            call,
            self._enforcement.capabilities(),
            time.time_ns(),
            device_list=self._node_state.device_list,
            terminating=bool(terminating),
        )

    async def _perform(self, decision: Allocated) -> AllocateResponse | Rejected:
        """Commit the allocation, write its files and the record, and respond; roll back if a write fails."""
        allocation = decision.allocation
        # The state changes first, because the record is written from it.
        before = self._node_state.allocations.by_container.get(allocation.key)
        self._node_state.add_allocation(allocation, decision.first_device_id)
        try:
            await self._enforcement.write(allocation)
        except ConfigError as error:
            self._node_state.revert_allocation(allocation, before)
            return self._reject(Rejected("record", str(error)), decision.found)
        self._last_allocation = allocation
        log.info(
            "allocated", pod=allocation.pod, container=allocation.container, cards=dict(allocation.cards)
        )
        return response_for(
            self._node_state.allocations,
            allocation,
            decision.demand,
            self._node_state.device_list,
            self._settings.response,
            decision.mps,
        )

    def _reject(self, rejected: Rejected, found: Match | None) -> AllocateResponse | Rejected:
        """The rejection; after several ones of a workload, the response that fails its container.

        The controller replaces a rejected pod at once, and the next pod would be rejected too. A pod whose
        container does not start is not replaced, and the kubelet tries again at intervals. A pod that no
        source has shown is rejected: admitted, it would hold units for kube-scheduler that no record has. Its
        call waits until the deadline, so that few are rejected.
        """
        workload = found.gpu_pod.pod.workload if found else ""
        often = bool(workload) and self._rejections.add(workload, time.monotonic()) > _REJECTIONS
        if found:
            # A container is remembered as long as its pod is shown: the kubelet never calls for it again.
            present = self._node_state.allocations.gpu_pods
            self._rejected = frozenset(key for key in self._rejected if key[0] in present)
            self._rejected |= {found.key}
            text = f"{rejected.text} ({_TOO_OFTEN})" if often else rejected.text
            self._record_event(pod_event(found.gpu_pod.pod, EVENT_REFUSED, text, warning=True))
        return failing_response(rejected.reason) if often else rejected

    async def allocate_core(self, ids: Sequence[str]) -> AllocateResponse | Rejected:
        """An empty response: the GPU comes with the memory, for which the kubelet calls separately.

        The order of both calls is undefined. After the call for memory, this one is for the same container.
        That may be a twin of the matched container, so its compute must fit on the GPUs allocated to it.
        """
        percent, deadline = len(ids), self._deadline()
        with self._watchdog.work("allocate", self._settings.timeout_s + _STUCK_S):
            async with self.lock:
                last, self._last_allocation = self._last_allocation, None
                snapshot = self._observer.observe()
                if last and twin_with_core(snapshot, last, percent):
                    fits = core_fits(snapshot.allocations, last, percent)
                    return AllocateResponse() if fits else self._reject(no_core_left(last, percent), None)
                return await self._allocate_core_first(percent, deadline)

    async def _allocate_core_first(self, percent: int, deadline: float) -> AllocateResponse | Rejected:
        """The compute comes first: the next call for memory is for a container with that share."""
        without_mem = core_only(self._node_state.allocations, percent)
        if without_mem and not self._match_core(percent):
            return self._reject(no_core(self._node_state.allocations, percent, without_mem), without_mem)
        if await self._wait_for(lambda: self._match_core(percent), deadline):
            self._core_percent = percent
            return AllocateResponse()
        return self._reject(no_core(self._node_state.allocations, percent, None), None)

    async def cards_for_mem(self, amount: int) -> tuple[int, ...]:
        """Indices of the GPUs for the next container with that amount; empty if unknown.

        With IDs of other GPUs the kubelet would fail the container after a reboot without those GPUs.
        """

        def find() -> Match | None:
            call = AllocateCall(amount, core=self._core_percent, refused=self._rejected)
            return match(self._observer.observe(), call)

        return await self._cards_for(find)

    async def cards_for_core(self, percent: int) -> tuple[int, ...]:
        """The same for the next container with that percent of compute."""
        return await self._cards_for(lambda: self._match_core(percent))

    async def _cards_for(self, find: Callable[[], Match | None]) -> tuple[int, ...]:
        wait_s = min(_PREFERENCE_S, self._settings.timeout_s)
        found = await self._wait_for(find, time.monotonic() + wait_s)
        demand = found.gpu_pod.demand if found else None
        if found is None or demand is None:
            return ()
        cards = choose(self._node_state.allocations, found.gpu_pod, demand)
        return () if isinstance(cards, Rejection) else cards

    async def _wait_for(self, find: Callable[[], Match | None], deadline: float) -> Match | None:
        """The first match; None without one until the deadline."""

        async def attempt() -> Match | None:
            return find()

        return await self._retries.until(attempt, lambda found: found is not None, deadline)

    def _match_core(self, percent: int) -> Match | None:
        return match_core(self._observer.observe(), percent)

    def _deadline(self) -> float:
        """When a call that arrives now must be answered, on the monotonic clock."""
        return time.monotonic() + self._settings.timeout_s
