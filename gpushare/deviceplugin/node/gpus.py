"""Monitors the GPUs of this node: inventory of the driver, health, XID errors and cordons."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import structlog

from gpushare.contract import (
    ANN_CORDONED_CARDS,
    EVENT_CARD_RECOVERED,
    EVENT_CARD_UNHEALTHY,
    EVENT_CARDS_CHANGED,
    EVENT_MALFORMED,
)
from gpushare.deviceplugin.core.device_ids import namer_for
from gpushare.deviceplugin.core.gpu_readings import Adopted, GpusInUse, adopt, without_growth
from gpushare.deviceplugin.core.health import Cordon, Health, HealthPolicy, cordon, health_changes
from gpushare.deviceplugin.core.shared_gpus import (
    SharedGpus,
    changes,
    reason_against,
    shared_gpus,
    with_declared_memory,
)
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.fault_record import FaultRecord
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.errors import ConfigError, DriverAbsentError, DriverReplacedError, GpuError, first_of
from gpushare.model.cards import Card, parse_cards
from gpushare.model.demand import Malformed
from gpushare.model.hardware import Fault, Gpu, GpuFacts, Inventory
from gpushare.model.local_node import LocalNode
from gpushare.model.options import MemoryUnit
from gpushare.ports import InventoryDriver

log = structlog.get_logger()

_WATCHDOG_S: Final = 60.0
"""Longer than the timeout of the driver's adapter."""
OnWait = Callable[[str], Awaitable[None]]
_NO_CORDON: Final = Cordon(frozenset(), None)


@dataclass(frozen=True, slots=True)
class GpuSettings:
    """The unit of gpu-mem, whether models outside the table are excluded, and the health policy.

    ``unified_mib`` is how much memory pods may allocate on a GPU that shares the memory of its host, None to
    exclude such GPUs.

    Without ``watch_health`` no XID error and no failed query of the driver makes a GPU unhealthy. The driver
    is asked for the health of its GPUs every ``poll_s`` seconds, and for all of them every ``inventory_s``.
    """

    unit: MemoryUnit = MemoryUnit.GIB
    refuse_unlisted: bool = False
    health: HealthPolicy = field(default_factory=HealthPolicy)
    watch_health: bool = True
    poll_s: float = 5.0
    inventory_s: float = 30.0
    unified_mib: int | None = None


class GpuReading(NamedTuple):
    """One reading of all GPUs; without health checks it has no facts."""

    inventory: Inventory
    facts: Mapping[str, GpuFacts]


class GpuMonitor:
    """Passes the shared GPUs to ``on_change`` after each change.

    ``record_event`` is called with reason and text of each event about the node.

    ``problem`` is why the driver cannot be used, None while it responds. ``not_offered`` are changes of GPUs
    with which the list of devices would be too long for the kubelet, None without any.
    """

    def __init__(
        self,
        gpus: InventoryDriver,
        settings: GpuSettings,
        faults: FaultRecord,
        metrics: PluginMetrics,
        *,
        on_change: Callable[[SharedGpus], None],
        record_event: Callable[[str, str], None],
        watchdog: Watchdog,
    ) -> None:
        self._gpus = gpus
        self._settings = settings
        self._faults = faults
        self._metrics = metrics
        self._on_change = on_change
        self._record_event = record_event
        self._watchdog = watchdog
        self.problem: str | None = None
        self.not_offered: str | None = None
        self._inventory = Inventory("", None, ())
        self._health = Health.of((), settings.health)
        self._cordon_text: str | None = None
        self._cordon = _NO_CORDON
        self._shared_gpus = SharedGpus(settings.unit)
        self._fault_reported = asyncio.Event()

    async def start(self, on_wait: OnWait | None = None) -> None:
        """Read the inventory and the health; wait while the driver is absent or no GPU can be shared.

        A GPU is judged before the kubelet gets its devices: it may have waited for a reset for long.

        ``on_wait`` gets the reason at each attempt.
        Raises GpuError if the driver cannot be used, DriverReplacedError, and ConfigError for more units than
        the kubelet takes.
        """
        shared = await self._first_reading()
        while shared is None:
            if on_wait and self.problem:
                await on_wait(self.problem)
            await asyncio.sleep(self._settings.poll_s)
            shared = await self._first_reading()
        for notice in shared.notices:
            log.warning("gpu_notice", text=notice)
        namer = namer_for(shared.cards)
        if isinstance(namer, Malformed):
            raise ConfigError(namer.problem)
        log.info(
            "cards",
            driver=self._inventory.driver,
            cuda=self._inventory.cuda,
            units=[c.units for c in shared.cards],
        )
        self._report_health(Health.of(self._health.conditions))
        self._publish(shared)

    async def _first_reading(self) -> SharedGpus | None:
        """The GPUs to share; None, with the reason in ``problem``, if there are none yet."""
        before = self.problem
        try:
            self._inventory = await self._read_inventory()
            facts = await self._read_facts()
        except DriverAbsentError as error:
            self._set_problem(str(error))
        else:
            self._set_problem(None)
            self._health = self._first_health(facts)
            shared = self._shared()
            if shared.cards:
                return shared
            reasons = "; ".join(shared.notices) or "NVML found none"
            self.problem = f"no GPU of this machine can be shared: {reasons}"
        if self.problem != before:
            log.warning("waiting_for_gpus", reason=self.problem)
        return None

    def _first_health(self, facts: Mapping[str, GpuFacts]) -> Health:
        xids = self._faults.read() if self._settings.watch_health else {}
        uuids = [gpu.uuid for gpu in self._inventory.gpus]
        return Health.of(uuids, self._settings.health, xids).after_poll(facts, time.monotonic())

    async def _read_facts(self) -> Mapping[str, GpuFacts]:
        """What the driver answers about each GPU; nothing without health checks. Raises GpuError."""
        return await self._gpus.facts() if self._settings.watch_health else {}

    def report_changes(self, published: str | None) -> None:
        """Report differences to ``published``, the node's GPU annotation from before the agent started."""
        before = parse_cards(published) if published else ()
        if not isinstance(before, tuple) or not before:
            return
        self._report_changes(before, self._shared_gpus.cards)

    def _report_changes(self, before: tuple[Card, ...], after: tuple[Card, ...]) -> None:
        for text in changes(before, after):
            log.warning("cards_changed", text=text)
            self._record_event(EVENT_CARDS_CHANGED, text)

    def update_node(self, node: LocalNode) -> None:
        """Apply the GPU cordons of the node's annotation."""
        self._cordon_text = node.annotations.get(ANN_CORDONED_CARDS)
        if self._update_cordon():
            self._publish(self._shared())

    def _update_cordon(self) -> bool:
        """Apply the annotation to the GPUs that are there now; returns whether that changes anything."""
        found = cordon(self._cordon_text, {gpu.index for gpu in self._inventory.gpus})
        if found == self._cordon:
            return False
        self._cordon = found
        if found.problem:
            log.warning("cordon_unreadable", problem=found.problem)
            self._record_event(EVENT_MALFORMED, found.problem)
        return True

    async def run(
        self,
        allocation_lock: AbstractAsyncContextManager[None],
        allocated: Callable[[], Collection[str]],
    ) -> None:
        """Read all GPUs again, and check their health if the settings want it, until cancelled.

        ``allocated`` returns the UUIDs of the GPUs with allocations.

        Raises DriverReplacedError. Nothing changes while an Allocate call holds ``allocation_lock``.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._reread(allocation_lock, allocated))
                if self._settings.watch_health:
                    tasks.create_task(self._poll())
                    tasks.create_task(self._follow_faults())
        except* DriverReplacedError as group:
            reason = str(first_of(group))
            log.error("driver_replaced", reason=reason, effect="this process ends to be restarted")  # noqa: TRY400 - an expected failure has no traceback
            # A call that is being answered is finished before the process ends.
            async with allocation_lock:
                raise

    async def _poll(self) -> None:
        """Check the health regularly, and at once after an XID error: the driver may ask for a reset."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.poll_s):
                    await self._fault_reported.wait()
            self._fault_reported.clear()
            with self._watchdog.work("gpus", _WATCHDOG_S):
                await self.check()

    async def _reread(
        self,
        allocation_lock: AbstractAsyncContextManager[None],
        allocated: Callable[[], Collection[str]],
    ) -> None:
        while True:
            await asyncio.sleep(self._settings.inventory_s)
            with self._watchdog.work("gpus", _WATCHDOG_S):
                found = await self.read()
                if found:
                    async with allocation_lock:
                        self.adopt(found, allocated())

    async def _read_inventory(self) -> Inventory:
        """The GPUs with their declared sizes. Raises GpuError."""
        return with_declared_memory(await self._gpus.inventory(), self._settings.unified_mib)

    async def read(self) -> GpuReading | None:
        """Read all GPUs; None, with the reason in ``problem``, if the driver fails.

        Raises DriverReplacedError.
        """
        try:
            found = GpuReading(await self._read_inventory(), await self._read_facts())
        except DriverReplacedError:
            raise
        except GpuError as error:
            self._set_problem(str(error))
            return None
        self._set_problem(None)
        return found

    def adopt(self, reading: GpuReading, allocated: Collection[str]) -> None:
        """Apply a later reading of the GPUs. ``allocated`` are UUIDs of GPUs with allocations."""
        found = reading.inventory
        shared_before = self._shared_gpus
        adopted, not_offered = self._offerable(found, allocated)
        self._report_not_offered(not_offered)
        # Health and cordons name GPUs of the inventory, so that comes first.
        self._inventory = adopted.inventory
        shared = self._shared()
        self._update_cordon()
        self._report_changes(shared_before.cards, shared.cards)
        for notice in set(shared.notices).difference(shared_before.notices):
            log.warning("gpu_notice", text=notice)
        health = self._health.after_inventory((gpu.uuid for gpu in adopted.inventory.gpus), adopted.unfit)
        # Only for new GPUs, which must not be offered before they are judged: the polls count the others.
        new = {uuid: each for uuid, each in reading.facts.items() if uuid not in self._health.conditions}
        self._set_health(health.after_poll(new, time.monotonic()))
        if (shared := self._shared()) != self._shared_gpus:
            self._publish(shared)

    def _offerable(self, found: Inventory, allocated: Collection[str]) -> tuple[Adopted, str | None]:
        """What the reading changes, and what it does not, because the list of devices would be too long."""
        before, offered = self._inventory, [card.uuid for card in self._shared_gpus.cards]
        usage = GpusInUse(offered, allocated)
        adopted = adopt(before, found, usage, self._reason_against)
        wanted = self._shared(adopted.inventory).cards
        namer = namer_for(wanted)
        if not isinstance(namer, Malformed):
            return adopted, None
        rest = without_growth(before, found, offered, self._reason_against)
        adopted = adopt(before, rest, usage, self._reason_against)
        left_out = "; ".join(changes(self._shared(adopted.inventory).cards, wanted))
        return adopted, f"{left_out}; this is not offered to the kubelet: {namer.problem}"

    def _report_not_offered(self, reason: str | None) -> None:
        before, self.not_offered = self.not_offered, reason
        if reason and reason != before:
            log.error("cards_not_adopted", reason=reason)
            self._record_event(EVENT_CARDS_CHANGED, reason)

    def _reason_against(self, gpu: Gpu) -> str | None:
        return reason_against(gpu, self._settings.unit, refuse_unlisted=self._settings.refuse_unlisted)

    async def check(self) -> None:
        """Check the health of all GPUs once. Raises DriverReplacedError."""
        if self._faults.driver_has_started():
            self._set_health(self._health.after_driver_start())
        try:
            facts = await self._gpus.facts()
        except DriverReplacedError:
            raise
        except GpuError as error:
            self._set_problem(str(error))
            self._set_health(self._health.after_failed_poll(str(error), time.monotonic()))
        else:
            self._set_problem(None)
            self._set_health(self._health.after_poll(facts, time.monotonic()))
        await self._faults.write(self._health.reset_xids)

    def _set_problem(self, problem: str | None) -> None:
        self.problem = problem
        self._metrics.nvml_up.set(int(problem is None))

    async def _follow_faults(self) -> None:
        async for fault in self._gpus.faults():
            self.handle_fault(fault)

    def handle_fault(self, fault: Fault) -> None:
        """Handle an XID error, or a change of the recovery action, that the driver has reported."""
        if fault.xid is None:
            log.warning("recovery_action_changed", card=fault.uuid)
        else:
            self._metrics.xids.labels(fault.uuid or "", str(fault.xid)).inc()
            log.warning("xid", card=fault.uuid, xid=fault.xid)
            self._set_health(self._health.after_fault(fault))
        self._fault_reported.set()

    def _set_health(self, health: Health) -> None:
        before, self._health = self._health, health
        self._report_health(before)
        if before.unhealthy != health.unhealthy:
            self._publish(self._shared())

    def _report_health(self, before: Health) -> None:
        """Report what has changed since ``before``."""
        indices = {gpu.uuid: gpu.index for gpu in self._inventory.gpus}
        for change in health_changes(before, self._health):
            reason = EVENT_CARD_RECOVERED if change.healthy else EVENT_CARD_UNHEALTHY
            text = f"GPU {indices.get(change.uuid, '?')} ({change.uuid}): {change.reason}"
            log.warning("card_health_changed", card=change.uuid, healthy=change.healthy, reason=change.reason)
            self._record_event(reason, text)

    def _shared(self, inventory: Inventory | None = None) -> SharedGpus:
        """The shared GPUs of that inventory, by default of the one that applies."""
        return shared_gpus(
            inventory or self._inventory,
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
        verdicts = self._health.verdicts
        closed = {card.uuid: verdicts[card.uuid].rule for card in cards if card.uuid in verdicts}
        cordoned = sum(card.index in self._cordon.cards for card in cards)
        self._metrics.cards.labels("healthy").set(sum(card.healthy for card in cards))
        self._metrics.cards.labels("unhealthy").set(len(closed))
        self._metrics.cards.labels("cordoned").set(cordoned)
        self._metrics.unhealthy.clear()
        for uuid, rule in closed.items():
            self._metrics.unhealthy.labels(uuid, rule).set(1)
