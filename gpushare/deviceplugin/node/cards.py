"""The cards of this node, looked at again and again: the driver's word, their health, people's cordons."""

import asyncio
import time
from collections.abc import Callable, Iterable
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

_LOOK_S: Final = 5.0
_STUCK_S: Final = 60.0
"""Longer than the driver's adapter waits for an answer."""
_NO_CORDON: Final = Cordon(frozenset(), None)


@dataclass(frozen=True, slots=True)
class CardSettings:
    """Settings: the unit, whether models outside the table are left out, and what marks a card."""

    unit: MemoryUnit = MemoryUnit.GIB
    refuse_unlisted: bool = False
    health: HealthPolicy = field(default_factory=HealthPolicy)
    watch_health: bool = True


class CardMonitor:
    """Makes line-ups and hands on each that differs from the last. ``tell`` takes events about the node."""

    def __init__(
        self,
        node: str,
        gpus: InventoryDriver,
        terms: CardSettings,
        metrics: PluginMetrics,
        *,
        take: Callable[[SharedGpus], None],
        tell: Callable[[Event], None],
        watchdog: Watchdog,
    ) -> None:
        self._node = node
        self._gpus = gpus
        self._terms = terms
        self._metrics = metrics
        self._take = take
        self._tell = tell
        self._watchdog = watchdog
        self._inventory = Inventory("", None, ())
        self._health = Health.of((), terms.health)
        self._cordon = _NO_CORDON
        self._shared_gpus = SharedGpus(terms.unit)

    async def start(self) -> None:
        """The first look. Raises GpuError without a driver, and ConfigError where no card can be shared."""
        self._inventory = await self._gpus.inventory()
        self._health = Health.of((gpu.uuid for gpu in self._inventory.gpus), self._terms.health)
        made = self._made()
        for notice in made.notices:
            log.warning("card_noticed", text=notice)
        if not made.cards:
            reasons = "; ".join(made.notices) or "NVML knows of none"
            raise ConfigError(f"no card of this machine can be shared: {reasons}")
        namer = namer_for(made.cards)
        if isinstance(namer, Malformed):
            raise ConfigError(namer.problem)
        log.info(
            "cards",
            driver=self._inventory.driver,
            cuda=self._inventory.cuda,
            units=[c.units for c in made.cards],
        )
        self._metrics.nvml_up.set(1)
        self._publish(made)

    def compare(self, published: str | None) -> None:
        """Tell what is different from what an earlier life of the agent published of this node."""
        before = parse_cards(published) if published else ()
        if isinstance(before, tuple) and before:
            self._tell_changes(before, self._shared_gpus.cards)

    def see_node(self, facts: OwnNode) -> None:
        """Take in people's cordons."""
        found = cordon(facts.annotations.get(ANN_CORDONED_CARDS), {gpu.index for gpu in self._inventory.gpus})
        if found == self._cordon:
            return
        self._cordon = found
        if found.problem:
            log.warning("cordon_unreadable", problem=found.problem)
            self._tell(node_event(self._node, EVENT_MALFORMED, found.problem))
        self._publish(self._made())

    async def run(self) -> None:
        """Look until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_for_ever())
            tasks.create_task(self._hear_faults())

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            with self._watchdog.work("cards", _STUCK_S):
                await self.look()

    async def look(self) -> None:
        """One look at all cards."""
        try:
            ailing = await self._gpus.unhealthy()
        except GpuError as error:
            self._metrics.nvml_up.set(0)
            self._judge(self._health.after_silence(str(error), time.monotonic()))
        else:
            self._metrics.nvml_up.set(1)
            self._judge(self._health.after_poll(ailing, time.monotonic()))

    async def _hear_faults(self) -> None:
        async for fault in self._gpus.faults():
            self.hear(fault)

    def hear(self, fault: Fault) -> None:
        """The driver has reported an XID."""
        self._metrics.xids.labels(fault.uuid or "", str(fault.xid)).inc()
        log.warning("xid", card=fault.uuid, xid=fault.xid)
        self._judge(self._health.after_fault(fault))

    def _judge(self, health: Health) -> None:
        before, self._health = self._health, health
        indices = {gpu.uuid: gpu.index for gpu in self._inventory.gpus}
        for turn in health_changes(before, health):
            reason = EVENT_CARD_RECOVERED if turn.healthy else EVENT_CARD_UNHEALTHY
            text = f"card {indices.get(turn.uuid, '?')} ({turn.uuid}): {turn.reason}"
            log.warning("card_turned", card=turn.uuid, healthy=turn.healthy, reason=turn.reason)
            self._tell(node_event(self._node, reason, text))
        if before.unhealthy != health.unhealthy:
            self._publish(self._made())

    def _made(self) -> SharedGpus:
        return shared_gpus(
            self._inventory,
            self._terms.unit,
            refuse_unlisted=self._terms.refuse_unlisted,
            cordoned=self._cordon.cards,
            unhealthy=self._health.unhealthy,
        )

    def _publish(self, made: SharedGpus) -> None:
        self._shared_gpus = made
        self._count(made.cards)
        self._take(made)

    def _count(self, cards: Iterable[Card]) -> None:
        listed = list(cards)
        unhealthy = sum(card.uuid in self._health.unhealthy for card in listed)
        cordoned = sum(card.index in self._cordon.cards for card in listed)
        self._metrics.cards.labels("healthy").set(sum(card.healthy for card in listed))
        self._metrics.cards.labels("unhealthy").set(unhealthy)
        self._metrics.cards.labels("cordoned").set(cordoned)

    def _tell_changes(self, before: tuple[Card, ...], after: tuple[Card, ...]) -> None:
        for text in changes(before, after):
            log.warning("cards_changed", text=text)
            self._tell(node_event(self._node, EVENT_CARDS_CHANGED, text))
