"""Later readings of the GPUs: what the agent publishes and reports. The driver is a fake."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.samples import Sample
from structlog.testing import capture_logs

from gpushare.contract import (
    ANN_CORDONED_CARDS,
    EVENT_CARD_RECOVERED,
    EVENT_CARD_UNHEALTHY,
    EVENT_CARDS_CHANGED,
    EVENT_MALFORMED,
    FAULT_RECORD,
)
from gpushare.deviceplugin.core.shared_gpus import SharedGpus
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.fault_record import FaultRecord
from gpushare.deviceplugin.node.gpus import GpuMonitor, GpuSettings
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.errors import DriverAbsentError, DriverReplacedError, GpuError
from gpushare.model.hardware import Fault, Gpu, GpuFacts, Inventory, RecoveryAction
from gpushare.model.local_node import LocalNode
from gpushare.model.options import MemoryUnit
from tests.support.waiting import until

ONE = Gpu(0, "GPU-a", "Tesla T4", 15079, mig=False)
TWO = Gpu(1, "GPU-b", "Tesla T4", 15079, mig=False)
HEALTHY, RESET = GpuFacts(recovery=RecoveryAction.NONE), GpuFacts(recovery=RecoveryAction.GPU_RESET)
OLD = GpuFacts()
"""Of a driver without recovery actions."""


class FakeDriver:
    """Reports ``gpus`` and their ``health``, or raises ``error``."""

    def __init__(self) -> None:
        self.gpus: tuple[Gpu, ...] = (ONE, TWO)
        self.error: GpuError | None = None
        self.reads = 0
        self.asked: set[str] = set()
        self.xids: asyncio.Queue[Fault] = asyncio.Queue()
        self.health: dict[str, GpuFacts] = {}

    async def inventory(self) -> Inventory:
        self._check()
        self.reads += 1
        return Inventory("580", None, self.gpus)

    async def facts(self) -> Mapping[str, GpuFacts]:
        self.asked.add("health")
        self._check()
        return {gpu.uuid: self.health.get(gpu.uuid, HEALTHY) for gpu in self.gpus}

    async def faults(self) -> AsyncIterator[Fault]:
        self.asked.add("faults")
        while True:
            yield await self.xids.get()

    def _check(self) -> None:
        if self.error:
            raise self.error


class Monitored:
    """A monitor with what it publishes and reports."""

    def __init__(
        self,
        folder: Path,
        unit: MemoryUnit = MemoryUnit.GIB,
        *,
        watch_health: bool = True,
        poll_s: float = 0.001,
        unified_mib: int | None = None,
    ) -> None:
        self.driver = FakeDriver()
        self.published: list[SharedGpus] = []
        self.events: list[tuple[str, str]] = []
        self.metrics = PluginMetrics()
        self.driver_start = "boot 1"
        self.monitor = GpuMonitor(
            self.driver,
            GpuSettings(
                unit, watch_health=watch_health, poll_s=poll_s, inventory_s=0.001, unified_mib=unified_mib
            ),
            FaultRecord(folder, lambda: self.driver_start),
            self.metrics,
            on_change=self.published.append,
            record_event=lambda reason, text: self.events.append((reason, text)),
            watchdog=Watchdog(self.metrics),
        )

    async def read(self, *gpus: Gpu, allocated: tuple[str, ...] = ()) -> SharedGpus:
        """The shared GPUs after a reading of these GPUs."""
        self.driver.gpus = gpus
        found = await self.monitor.read()
        assert found
        self.monitor.adopt(found, allocated)
        return self.published[-1]

    @property
    def open(self) -> list[str]:
        """UUIDs of the GPUs that take pods."""
        return [card.uuid for card in self.published[-1].cards if card.healthy]

    async def report(self, xid: int, gpu: str = "GPU-a") -> None:
        """Let the driver report an XID; returns after the check that it causes."""
        self.monitor.handle_fault(Fault(gpu, xid))
        await self.monitor.check()

    def samples(self, metric: str) -> Iterator[Sample]:
        for family in self.metrics.registry.collect():
            yield from (sample for sample in family.samples if sample.name == metric)

    def xids(self) -> dict[str, float]:
        """The counted XID errors, by number."""
        samples = self.samples("gpushare_device_plugin_xid_errors_total")
        return {each.labels["xid"]: each.value for each in samples}

    def rules(self) -> dict[str, str]:
        """The rules by which GPUs take no pods, by UUID."""
        samples = self.samples("gpushare_device_plugin_card_unhealthy")
        return {each.labels["uuid"]: each.labels["rule"] for each in samples if each.value == 1}

    def count(self, state: str) -> float | None:
        return self.metrics.registry.get_sample_value("gpushare_device_plugin_cards", {"state": state})


@pytest.fixture
async def found(tmp_path: Path) -> Monitored:
    made = Monitored(tmp_path)
    await made.monitor.start()
    return made


async def test_mig_mode_is_reported_and_ends_when_it_is_switched_off(found: Monitored) -> None:
    during = await found.read(ONE, replace(TWO, mig=True))
    assert [(card.index, card.healthy, card.units) for card in during.cards] == [
        (0, True, 14),
        (1, False, 14),
    ]
    assert (found.count("healthy"), found.count("unhealthy")) == (1, 1)
    assert found.rules() == {"GPU-b": "unfit"}
    after = await found.read(ONE, TWO)
    assert [card.healthy for card in after.cards] == [True, True]
    reason = "GPU 1 (GPU-b): it is in MIG mode, which partitions it already"
    assert found.events == [(EVENT_CARD_UNHEALTHY, reason), (EVENT_CARD_RECOVERED, reason)]


async def test_a_gpu_that_leaves_mig_mode_after_the_start_is_shared(tmp_path: Path) -> None:
    found = Monitored(tmp_path)
    found.driver.gpus = (ONE, replace(TWO, mig=True))
    await found.monitor.start()
    assert [card.index for card in found.published[-1].cards] == [0]
    assert [card.index for card in (await found.read(ONE, TWO)).cards] == [0, 1]
    assert found.events == [(EVENT_CARDS_CHANGED, "GPU 1 (Tesla T4) has appeared with 14 units")]


async def test_a_cordon_applies_to_a_gpu_that_appears_later(tmp_path: Path) -> None:
    found = Monitored(tmp_path)
    found.driver.gpus = (ONE,)
    await found.monitor.start()
    found.monitor.update_node(LocalNode("n", annotations={ANN_CORDONED_CARDS: "1"}))
    assert [reason for reason, _ in found.events] == [EVENT_MALFORMED]
    assert (await found.read(ONE, TWO)).cordoned == {1}


async def test_a_smaller_gpu_closes_until_its_pods_are_gone(found: Monitored) -> None:
    smaller = replace(ONE, mib=14141)
    during = await found.read(smaller, TWO, allocated=("GPU-a",))
    card = during.cards[0]
    assert (card.units, card.mib, card.healthy) == (14, 15079, False)
    after = await found.read(smaller, TWO)
    card = after.cards[0]
    assert (card.units, card.mib, card.healthy) == (13, 14141, True)
    changed = "GPU 0 (Tesla T4) has 13 units instead of 14 (15079 → 14141 MiB)"
    assert (EVENT_CARDS_CHANGED, changed) in found.events


async def test_the_start_waits_for_the_driver_and_for_a_gpu(tmp_path: Path) -> None:
    found = Monitored(tmp_path)
    found.driver.error = DriverAbsentError("the driver is not loaded")
    with capture_logs() as logs:
        starting = asyncio.create_task(found.monitor.start())
        await until(lambda: found.monitor.problem == "the driver is not loaded")
        assert found.metrics.registry.get_sample_value("gpushare_device_plugin_nvml_up") == 0
        found.driver.gpus, found.driver.error = (replace(ONE, mig=True),), None
        await until(lambda: "no GPU of this machine can be shared" in (found.monitor.problem or ""))
        assert "it is in MIG mode" in (found.monitor.problem or "")
        assert not found.published
        found.driver.gpus = (ONE,)
        await starting
    assert [each["event"] for each in logs] == ["waiting_for_gpus", "waiting_for_gpus", "cards"]
    assert found.monitor.problem is None
    assert len(found.published) == 1


async def test_every_reason_to_wait_is_passed_on(tmp_path: Path) -> None:
    found = Monitored(tmp_path)
    found.driver.gpus = (replace(ONE, mib=0, unified=True),)
    reasons: list[str] = []

    async def on_wait(reason: str) -> None:
        reasons.append(reason)
        found.driver.gpus = (ONE,)

    await found.monitor.start(on_wait)
    (reason,) = reasons
    assert reason.startswith(
        "no GPU of this machine can be shared: GPU 0 (Tesla T4) is not shared: it shares"
    )


async def test_a_declared_size_applies_to_every_reading(tmp_path: Path) -> None:
    unified = replace(ONE, mib=0, unified=True)
    found = Monitored(tmp_path, unified_mib=65536)
    found.driver.gpus = (unified,)
    await found.monitor.start()
    assert [card.units for card in found.published[-1].cards] == [64]
    later = await found.read(unified, TWO, allocated=(ONE.uuid,))
    assert [(card.units, card.healthy) for card in later.cards] == [(64, True), (14, True)]


async def test_a_driver_that_cannot_be_used_ends_the_start(tmp_path: Path) -> None:
    found = Monitored(tmp_path)
    found.driver.error = GpuError("libnvidia-ml.so.1 was not found")
    with pytest.raises(GpuError, match="was not found"):
        await found.monitor.start()


async def test_an_equal_reading_publishes_and_reports_nothing(found: Monitored) -> None:
    before = len(found.published)
    await found.read(ONE, TWO)
    assert (len(found.published), found.events) == (before, [])


LARGE = Gpu(2, "GPU-c", "H200", 143771, mig=False)
"""With MiB as the unit, it does not fit into the list of devices beside ONE and TWO."""


@pytest.fixture
async def in_mib(tmp_path: Path) -> Monitored:
    made = Monitored(tmp_path, MemoryUnit.MIB)
    await made.monitor.start()
    return made


async def test_a_gpu_with_more_units_than_the_kubelet_takes_is_not_shared(in_mib: Monitored) -> None:
    with capture_logs() as logs:
        for _ in range(3):
            offered = await in_mib.read(ONE, TWO, LARGE)
    assert [card.uuid for card in offered.cards] == ["GPU-a", "GPU-b"]
    reason = in_mib.monitor.not_offered
    assert reason
    assert reason.startswith(
        "GPU 2 (H200) has appeared with 143771 units; this is not offered to the kubelet: 173929 devices"
    )
    assert reason.endswith("start with --memory-unit=GiB")
    assert [(each["event"], each["reason"]) for each in logs] == [("cards_not_adopted", reason)]
    assert in_mib.events == [(EVENT_CARDS_CHANGED, reason)]


async def test_the_health_of_shared_gpus_is_published_while_another_one_does_not_fit(
    in_mib: Monitored,
) -> None:
    during = await in_mib.read(ONE, replace(TWO, mig=True), LARGE)
    assert [(card.index, card.healthy) for card in during.cards] == [(0, True), (1, False)]
    assert EVENT_CARD_UNHEALTHY in {reason for reason, _ in in_mib.events}
    after = await in_mib.read(ONE, TWO, LARGE)
    assert [card.healthy for card in after.cards] == [True, True]


async def test_a_gpu_that_fits_after_all_is_shared(in_mib: Monitored) -> None:
    await in_mib.read(ONE, TWO, LARGE)
    after = await in_mib.read(ONE, TWO, replace(LARGE, mib=15079))
    assert [card.index for card in after.cards] == [0, 1, 2]
    assert in_mib.monitor.not_offered is None


async def test_a_gpu_keeps_its_size_if_a_larger_one_does_not_fit(in_mib: Monitored) -> None:
    during = await in_mib.read(replace(ONE, mib=143771), TWO)
    assert [(card.mib, card.healthy) for card in during.cards] == [(15079, True), (15079, True)]


async def test_a_driver_that_fails_is_the_problem_until_it_responds(found: Monitored) -> None:
    found.driver.error = GpuError("the driver is not loaded")
    assert await found.monitor.read() is None
    await found.monitor.check()
    assert found.monitor.problem == "the driver is not loaded"
    found.driver.error = None
    await found.monitor.check()
    assert found.monitor.problem is None


async def test_a_replaced_driver_ends_the_monitor_between_allocate_calls(found: Monitored) -> None:
    found.driver.error = DriverReplacedError("replaced")
    allocating = asyncio.Lock()
    await allocating.acquire()
    with capture_logs() as logs:
        running = asyncio.create_task(found.monitor.run(allocating, frozenset))
        await until(lambda: [each["event"] for each in logs] == ["driver_replaced"])
        assert not running.done()
        allocating.release()
        with pytest.raises(ExceptionGroup) as raised:
            await running
    assert raised.value.subgroup(DriverReplacedError)


async def test_readings_wait_for_allocate_calls(found: Monitored) -> None:
    allocating = asyncio.Lock()
    await allocating.acquire()
    asked: list[bool] = []

    def allocated() -> frozenset[str]:
        asked.append(allocating.locked())
        return frozenset()

    running = asyncio.create_task(found.monitor.run(allocating, allocated))
    found.driver.gpus = (ONE,)
    before = found.driver.reads
    await until(lambda: found.driver.reads > before)
    assert asked == []
    allocating.release()
    await until(lambda: not found.published[-1].cards[1].healthy)
    running.cancel()
    assert all(asked)


async def test_without_health_checks_gpus_are_still_read_again(tmp_path: Path) -> None:
    found = Monitored(tmp_path, watch_health=False)
    found.driver.gpus = (ONE,)
    await found.monitor.start()
    running = asyncio.create_task(found.monitor.run(asyncio.Lock(), frozenset))
    found.driver.gpus = (ONE, TWO)
    await until(lambda: len(found.published[-1].cards) == 2)
    found.driver.gpus = (TWO,)
    await until(lambda: [card.healthy for card in found.published[-1].cards] == [False, True])
    assert found.driver.asked == set()
    running.cancel()


async def test_without_health_checks_a_driver_that_fails_is_the_problem(tmp_path: Path) -> None:
    found = Monitored(tmp_path, watch_health=False)
    await found.monitor.start()
    found.driver.error = GpuError("the driver is not loaded")
    assert await found.monitor.read() is None
    assert found.monitor.problem == "the driver is not loaded"
    assert all(card.healthy for card in found.published[-1].cards)
    found.driver.error = None
    await found.monitor.read()
    assert found.monitor.problem is None


# --- health -------------------------------------------------------------------------------------------


async def test_a_gpu_that_needs_a_reset_is_not_offered_by_an_agent_that_starts(tmp_path: Path) -> None:
    found = Monitored(tmp_path)
    found.driver.health["GPU-a"] = RESET
    await found.monitor.start()
    assert [[card.healthy for card in each.cards] for each in found.published] == [[False, True]]
    reason = "GPU 0 (GPU-a): the driver asks for a reset of the GPU (recovery action 1)"
    assert found.events == [(EVENT_CARD_UNHEALTHY, reason)]


async def test_a_gpu_opens_by_itself_after_its_reset(found: Monitored) -> None:
    found.driver.health["GPU-a"] = RESET
    await found.monitor.check()
    assert found.open == ["GPU-b"]
    assert found.rules() == {"GPU-a": "needs_recovery"}
    del found.driver.health["GPU-a"]
    await found.monitor.check()
    assert found.open == ["GPU-a", "GPU-b"]
    assert found.rules() == {}
    reason = "GPU 0 (GPU-a): the driver asks for a reset of the GPU (recovery action 1)"
    assert found.events == [(EVENT_CARD_UNHEALTHY, reason), (EVENT_CARD_RECOVERED, reason)]


async def test_an_xid_causes_a_check_at_once(tmp_path: Path) -> None:
    found = Monitored(tmp_path, poll_s=3600)
    await found.monitor.start()
    running = asyncio.create_task(found.monitor.run(asyncio.Lock(), frozenset))
    for report in (Fault("GPU-a", 95), Fault("GPU-a", None)):
        found.driver.health["GPU-a"] = RESET
        found.driver.xids.put_nowait(report)
        await until(lambda: found.open == ["GPU-b"])
        del found.driver.health["GPU-a"]
        found.driver.xids.put_nowait(Fault("GPU-a", 154))
        await until(lambda: found.open == ["GPU-a", "GPU-b"])
    running.cancel()
    assert found.xids() == {"95": 1, "154": 2}


async def test_an_event_names_the_xid_and_what_the_driver_asks_for(found: Monitored) -> None:
    found.driver.health["GPU-a"] = RESET
    await found.report(95)
    reason = (
        "the driver asks for a reset of the GPU (recovery action 1), after XID 95 (uncontained memory error)"
    )
    assert found.events == [(EVENT_CARD_UNHEALTHY, f"GPU 0 (GPU-a): {reason}")]


async def test_a_new_gpu_that_needs_a_reset_is_not_offered_first(tmp_path: Path) -> None:
    found = Monitored(tmp_path)
    found.driver.gpus = (ONE,)
    await found.monitor.start()
    found.driver.health["GPU-b"] = RESET
    await found.read(ONE, TWO)
    assert [[card.healthy for card in each.cards] for each in found.published] == [[True], [True, False]]


async def test_readings_of_the_inventory_are_no_failed_polls(found: Monitored) -> None:
    found.driver.health["GPU-a"] = GpuFacts(failure="GPU is lost")
    for _ in range(5):
        await found.read(ONE, TWO)
    assert found.open == ["GPU-a", "GPU-b"]


@pytest.fixture
async def old(tmp_path: Path) -> Monitored:
    """An agent with a driver that has no recovery actions."""
    return await started_on_old_driver(tmp_path)


async def started_on_old_driver(folder: Path, driver_start: str = "boot 1") -> Monitored:
    made = Monitored(folder)
    made.driver_start = driver_start
    made.driver.health = {"GPU-a": OLD, "GPU-b": OLD}
    await made.monitor.start()
    return made


async def test_without_recovery_actions_a_reset_is_needed_across_restarts_of_the_agent(
    old: Monitored, tmp_path: Path
) -> None:
    await old.report(95)
    assert old.open == ["GPU-b"]
    again = await started_on_old_driver(tmp_path)
    assert [[card.healthy for card in each.cards] for each in again.published] == [[False, True]]


async def test_a_gpu_that_is_away_during_a_restart_of_the_agent_comes_back_closed(
    old: Monitored, tmp_path: Path
) -> None:
    await old.report(79)
    again = Monitored(tmp_path)
    again.driver.gpus, again.driver.health = (TWO,), {"GPU-a": OLD, "GPU-b": OLD}
    await again.monitor.start()
    await again.monitor.check()
    await again.read(TWO)
    await again.read(ONE, TWO)
    await again.monitor.check()
    assert again.open == ["GPU-b"]
    assert FaultRecord(tmp_path, lambda: "boot 1").read() == {"GPU-a": 79}


async def test_without_recovery_actions_a_start_of_the_driver_opens_the_gpu(
    old: Monitored, tmp_path: Path
) -> None:
    await old.report(95)
    assert (await started_on_old_driver(tmp_path, "boot 2")).open == ["GPU-a", "GPU-b"]
    old.driver_start = "boot 1 reloaded"
    await old.monitor.check()
    assert old.open == ["GPU-a", "GPU-b"]


async def test_a_gpu_opens_once_the_record_is_deleted_while_no_agent_runs(
    old: Monitored, tmp_path: Path
) -> None:
    await old.report(95)
    (tmp_path / Path(FAULT_RECORD).name).unlink()
    assert (await started_on_old_driver(tmp_path)).open == ["GPU-a", "GPU-b"]


async def test_without_health_checks_nothing_closes_a_gpu(tmp_path: Path, old: Monitored) -> None:
    await old.report(95)
    found = Monitored(tmp_path, watch_health=False)
    found.driver.health["GPU-b"] = RESET
    await found.monitor.start()
    assert found.open == ["GPU-a", "GPU-b"]
    assert found.driver.asked == set()
