"""What has to be looked after as long as the agent runs: the kubelet's word, departures, the record."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import structlog

from gpushare.adapters.kubelet.folder import FolderWatch
from gpushare.adapters.kubelet.podresources import PodResources
from gpushare.contract import KUBELET_CHECKPOINT
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.checkpoint import served_by_name, whole_by_name
from gpushare.deviceplugin.node.record import Record
from gpushare.deviceplugin.node.release import CardReleaser
from gpushare.deviceplugin.node.state import NodeState
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.errors import ConfigError, KubeletError
from gpushare.model.devices import ContainerDevices

log = structlog.get_logger()

_LOOK_AGAIN_S: Final = 1.0
_RETRY_S: Final = 5.0
_ASK_S: Final = 2.0
_WRITE_S: Final = 30.0


class Reconciler:
    """The jobs of one household."""

    def __init__(
        self,
        settings: AgentSettings,
        node_state: NodeState,
        departures: CardReleaser,
        record: Record,
        watchdog: Watchdog,
        metrics: PluginMetrics,
    ) -> None:
        self._folder = settings.folder
        self._resources = PodResources(settings.pod_resources)
        self._node_state = node_state
        self._departures = departures
        self._record = record
        self._watchdog = watchdog
        self._metrics = metrics

    def jobs(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """What runs until it is cancelled, with a name for each."""
        yield "checkpoint", self._follow_checkpoint()
        yield "owners", self._ask_for_owners()
        yield "departures", self._let_go()
        yield "record", self._keep_record()

    async def _follow_checkpoint(self) -> None:
        """The kubelet has served a container: see which one it was."""
        while True:
            with suppress(KubeletError), FolderWatch(self._folder) as names:
                self._node_state.refresh()
                async for name in names:
                    if name in (KUBELET_CHECKPOINT, ""):
                        self._node_state.refresh()
            await asyncio.sleep(_RETRY_S)

    async def _ask_for_owners(self) -> None:
        """Where the checkpoint cannot be read, the kubelet is asked who got what was given."""
        while True:
            await asyncio.sleep(_ASK_S)
            if self._node_state.refresh() is None:
                with suppress(KubeletError):
                    self._take_devices(await self._resources.list())

    def _take_devices(self, found: Sequence[ContainerDevices]) -> None:
        self._node_state.take_whole(whole_by_name(found, self._node_state.uids))
        if any(not grant.confirmed for grant in self._node_state.allocations.by_container.values()):
            self._node_state.take_served(served_by_name(found, self._node_state.allocations))

    async def _let_go(self) -> None:
        """The cards of pods that still leave are looked at again soon."""
        while True:
            edition = self._node_state.edition
            with self._watchdog.work("departures", _WRITE_S):
                leaving = await self._departures.settle()
            if edition == self._node_state.edition:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._node_state.changed(), _LOOK_AGAIN_S if leaving else None)

    async def _keep_record(self) -> None:
        """What Allocate did not write itself: new owners, and grants that have ended."""
        kept = None
        while True:
            grants = self._node_state.allocations.by_container
            if grants is kept:
                await self._node_state.changed()
                continue
            try:
                with self._watchdog.work("record", _WRITE_S):
                    await self._record.keep(lambda: self._node_state.allocations.by_container)
            except ConfigError as error:
                self._metrics.reduced.labels("record").set(1)
                log.warning("record_not_written", reason=str(error))
                await asyncio.sleep(_RETRY_S)
            else:
                self._metrics.reduced.labels("record").set(0)
                kept = grants
