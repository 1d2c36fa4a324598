"""Periodic work on the node state: kubelet checkpoint, PodResources, terminated pods, record on disk."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any, Final

import structlog

from gpushare.adapters.kubelet.folder import FolderWatch
from gpushare.adapters.kubelet.podresources import PodResources
from gpushare.contract import KUBELET_CHECKPOINT
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.checkpoint import Observer, whole_gpus_by_name
from gpushare.deviceplugin.node.record import AllocationRecord
from gpushare.deviceplugin.node.release import GpuReleaser
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.errors import ConfigError, KubeletError
from gpushare.runtime.reasons import Reasons

log = structlog.get_logger()

_TERMINATING_POLL_S: Final = 1.0
_RETRY_S: Final = 5.0
_POD_RESOURCES_POLL_S: Final = 2.0
_WATCHDOG_S: Final = 30.0
_RECORD: Final = "record"
"""Value of the label ``right`` of the degraded mode metric."""


class Reconciler:
    """Keeps one node state in step with the kubelet and its record in step with the node state.

    ``poll_s`` is the interval of polls of the PodResources API.
    """

    def __init__(
        self,
        settings: AgentSettings,
        observer: Observer,
        releaser: GpuReleaser,
        record: AllocationRecord,
        watchdog: Watchdog,
        metrics: PluginMetrics,
        *,
        poll_s: float = _POD_RESOURCES_POLL_S,
    ) -> None:
        self._poll_s = poll_s
        self._folder = settings.device_plugin_folder
        self._pod_resources = PodResources(settings.pod_resources_socket)
        self._observer = observer
        self._node_state = observer.node_state
        self._releaser = releaser
        self._record = record
        self._watchdog = watchdog
        self._metrics = metrics

    def jobs(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """The jobs by name; each runs until cancelled. The names are values of a metric label."""
        yield "checkpoint", self._follow_checkpoint()
        yield "whole_gpus", self._poll_whole_gpus()
        yield "departures", self._release_terminated()
        yield "record", self._write_record()

    async def _follow_checkpoint(self) -> None:
        """The kubelet writes its checkpoint after Allocate: read there which container was served."""
        while True:
            with suppress(KubeletError), FolderWatch(self._folder) as names:
                self._observer.observe()
                async for name in names:
                    # An empty name: changes were lost, so any file may have changed.
                    if name in (KUBELET_CHECKPOINT, ""):
                        self._observer.observe()
            await asyncio.sleep(_RETRY_S)

    async def _poll_whole_gpus(self) -> None:
        """Find whole-GPU pods in the PodResources API while the checkpoint cannot be read."""
        problems = Reasons()
        while True:
            await asyncio.sleep(self._poll_s)
            if self._observer.observe().readable:
                continue
            try:
                found = await self._pod_resources.list()
            except KubeletError as error:
                if problems.is_new(str(error)):
                    log.warning("pod_resources_unreadable", reason=str(error))
            else:
                problems.end()
                names = self._node_state.uids_by_name
                self._node_state.apply_whole_gpus(whole_gpus_by_name(found, names))

    async def _release_terminated(self) -> None:
        """Release GPUs after every change, and poll while pods are still terminating."""
        while True:
            generation = self._node_state.generation
            with self._watchdog.work("departures", _WATCHDOG_S):
                terminating = await self._releaser.release(self._observer.observe().terminated)
            if generation == self._node_state.generation:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_TERMINATING_POLL_S if terminating else None):
                        await self._node_state.changed()

    async def _write_record(self) -> None:
        """Record what Allocate does not write itself: owners, released GPUs, sizes of contexts."""
        problems = Reasons()
        while True:
            generation = self._node_state.generation
            try:
                with self._watchdog.work("record", _WATCHDOG_S):
                    await self._record.write(lambda: self._node_state.allocations)
            except ConfigError as error:
                self._metrics.degraded.labels(_RECORD).set(1)
                self._node_state.apply_obstacle(_RECORD, f"its node agent cannot write its record: {error}")
                if problems.is_new(str(error)):
                    log.warning("record_not_written", reason=str(error))
                await asyncio.sleep(_RETRY_S)
            else:
                problems.end()
                self._metrics.degraded.labels(_RECORD).set(0)
                self._node_state.apply_obstacle(_RECORD, None)
                if generation == self._node_state.generation:
                    await self._node_state.changed()
