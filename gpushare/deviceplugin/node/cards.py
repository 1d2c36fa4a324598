"""Monitors the GPUs of this node: inventory of the driver, health, XID errors and cordons."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from gpushare.contract import (
    ANN_CORDONED_CARDS,
    EVENT_CARD_RECOVERED,
    EVENT_CARD_UNHEALTHY,
    EVENT_CARDS_CHANGED,
    EVENT_MALFORMED,
)
from gpushare.deviceplugin.core.device_ids import namer_for
from gpushare.deviceplugin.core.health import Cordon, Health, HealthPolicy, cordon, health_changes
from gpushare.deviceplugin.core.shared_gpus import SharedGpus, changes, shared_gpus
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.errors import ConfigError, GpuError
from gpushare.model.cards import Card, parse_cards
from gpushare.model.demand import Malformed
from gpushare.model.hardware import Fault, Inventory
from gpushare.model.options import MemoryUnit
from gpushare.model.own_node import OwnNode
from gpushare.ports import Event, InventoryDriver, node_event

log = structlog.get_logger()

_POLL_S: Final = 5.0
_WATCHDOG_S: Final = 60.0
"""Longer than the timeout of the driver's adapter."""
_NO_CORDON: Final = Cordon(frozenset(), None)


@dataclass(frozen=True, slots=True)
class CardSettings:
    """The unit of gpu-mem, whether models outside the table are excluded, and the health policy."""

    unit: MemoryUnit = MemoryUnit.GIB
    refuse_unlisted: bool = False
    health: HealthPolicy = field(default_factory=HealthPolicy)
    watch_health: bool = True


class CardMonitor:
    """Passes the shared GPUs to ``on_change`` after each change, and node events to ``record_event``."""

    def __init__(
        self,
        node: str,
        gpus: InventoryDriver,
        settings: CardSettings,
        metrics: PluginMetrics,
        *,
        on_change: Callable[[SharedGpus], None],
        record_event: Callable[[Event], None],
        watchdog: Watchdog,
    ) -> None:
        self._node = node
        self._gpus = gpus
        self._settings = settings
        self._metrics = metrics
        self._on_change = on_change
        self._record_event = record_event
        self._watchdog = watchdog
        self._inventory = Inventory("", None, ())
        self._health = Health.of((), settings.health)
        self._cordon = _NO_CORDON
        self._shared_gpus = SharedGpus(settings.unit)

    async def start(self) -> None:
        """Read the inventory. Raises GpuError without a driver, and ConfigError if no GPU can be shared."""
        self._inventory = await self._gpus.inventory()
        self._health = Health.of((gpu.uuid for gpu in self._inventory.gpus), self._settings.health)
        shared = self._shared()
        for notice in shared.notices:
            log.warning("gpu_notice", text=notice)
        if not shared.cards:
            reasons = "; ".join(shared.notices) or "NVML found none"
            raise ConfigError(f"no GPU of this machine can be shared: {reasons}")
        namer = namer_for(shared.cards)
        if isinstance(namer, Malformed):
            raise ConfigError(namer.problem)
        log.info(
            "cards",
            driver=self._inventory.driver,
            cuda=self._inventory.cuda,
            units=[c.units for c in shared.cards],
        )
        self._metrics.nvml_up.set(1)
        self._publish(shared)

    def report_changes(self, published: str | None) -> None:
        """Report differences to ``published``, the node's GPU annotation from before the agent started."""
        before = parse_cards(published) if published else ()
        if not isinstance(before, tuple) or not before:
            return
        for text in changes(before, self._shared_gpus.cards):
            log.warning("cards_changed", text=text)
            self._record_event(node_event(self._node, EVENT_CARDS_CHANGED, text))

    def update_node(self, node: OwnNode) -> None:
        """Apply the GPU cordons of the node's annotation."""
        found = cordon(node.annotations.get(ANN_CORDONED_CARDS), {gpu.index for gpu in self._inventory.gpus})
        if found == self._cordon:
            return
        self._cordon = found
        if found.problem:
            log.warning("cordon_unreadable", problem=found.problem)
            self._record_event(node_event(self._node, EVENT_MALFORMED, found.problem))
        self._publish(self._shared())

    async def run(self) -> None:
        """Check the health of all GPUs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._poll())
            tasks.create_task(self._follow_faults())

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(_POLL_S)
            with self._watchdog.work("cards", _WATCHDOG_S):
                await self.check()

    async def check(self) -> None:
        """Check the health of all GPUs once."""
        try:
            unhealthy = await self._gpus.unhealthy()
        except GpuError as error:
            self._metrics.nvml_up.set(0)
            self._set_health(self._health.after_silence(str(error), time.monotonic()))
        else:
            self._metrics.nvml_up.set(1)
            self._set_health(self._health.after_poll(unhealthy, time.monotonic()))

    async def _follow_faults(self) -> None:
        async for fault in self._gpus.faults():
            self.handle_fault(fault)

    def handle_fault(self, fault: Fault) -> None:
        """Handle an XID error that the driver has reported."""
        self._metrics.xids.labels(fault.uuid or "", str(fault.xid)).inc()
        log.warning("xid", card=fault.uuid, xid=fault.xid)
        self._set_health(self._health.after_fault(fault))

    def _set_health(self, health: Health) -> None:
        before, self._health = self._health, health
        indices = {gpu.uuid: gpu.index for gpu in self._inventory.gpus}
        for change in health_changes(before, health):
            reason = EVENT_CARD_RECOVERED if change.healthy else EVENT_CARD_UNHEALTHY
            text = f"GPU {indices.get(change.uuid, '?')} ({change.uuid}): {change.reason}"
            log.warning("card_health_changed", card=change.uuid, healthy=change.healthy, reason=change.reason)
            self._record_event(node_event(self._node, reason, text))
        if before.unhealthy != health.unhealthy:
            self._publish(self._shared())

    def _shared(self) -> SharedGpus:
        return shared_gpus(
            self._inventory,
            self._settings.unit,
            refuse_unlisted=self._settings.refuse_unlisted,
            cordoned=self._cordon.cards,
            unhealthy=self._health.unhealthy,
        )

    def _publish(self, shared: SharedGpus) -> None:
        self._shared_gpus = shared
        self._update_gauges(shared.cards)
        self._on_change(shared)

    def _update_gauges(self, cards: tuple[Card, ...]) -> None:
        unhealthy = sum(card.uuid in self._health.unhealthy for card in cards)
        cordoned = sum(card.index in self._cordon.cards for card in cards)
        self._metrics.cards.labels("healthy").set(sum(card.healthy for card in cards))
        self._metrics.cards.labels("unhealthy").set(unhealthy)
        self._metrics.cards.labels("cordoned").set(cordoned)
