"""Usage of GPUs and processes, on drivers of all versions: the real pynvml over the stub."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pynvml
import pytest
import pytest_asyncio

from gpushare.adapters.nvml import Nvml
from gpushare.errors import GpuError
from gpushare.model.readings import IDLE, Load, ProcessReading
from testbed import until
from testbed.nvml import ERAS, GpuProcess, NvmlStub, card
from tests.support.fixtures.nvml import MakeDriver, needs_compiler, soon

pytestmark = needs_compiler

MIB = 1024 * 1024
BUSY = GpuProcess(10, used_mib=1000, sm=23, memory=5)
IDLING = GpuProcess(11, used_mib=24)
SHOWN = (
    ProcessReading(10, 1000 * MIB, Load(23, 5)),
    ProcessReading(11, 24 * MIB, IDLE),
)


async def test_a_gpu_that_shares_the_memory_of_its_host_is_read_without_its_memory(
    driver: MakeDriver,
) -> None:
    driver(era=580, cards=[card("GB10", processes=(BUSY,))])
    async with Nvml() as gpus:
        readings = await gpus.readings()
    (found,) = readings.cards
    assert readings.unreadable == {}
    assert (found.total_bytes, found.used_bytes, found.free_bytes) == (None, None, None)
    assert (found.model, found.celsius, found.power_mw) == ("NVIDIA GB10", 36, 11_170)
    assert found.processes == (ProcessReading(10, 1000 * MIB, Load(23, 5)),)


@pytest_asyncio.fixture
async def gpus(stub: NvmlStub) -> AsyncIterator[Nvml]:
    async with Nvml(timeout_s=1, reopen_s=0) as made:
        yield made
        stub.release()
        stub.heal()

        async def answers() -> bool:
            with suppress(GpuError):
                return bool(await made.readings())
            return False

        # A library that still hangs is not shut down, and the next test would find it open.
        await until(answers, "the driver to come back")


@pytest.mark.parametrize("era", ERAS)
async def test_processes_are_read_with_every_era(era: int, driver: MakeDriver) -> None:
    driver(era=era, cards=[card("T4", processes=(BUSY, IDLING)), card("T4")])
    async with Nvml() as gpus:
        first, second = (await gpus.readings()).cards
    assert first.processes == SHOWN
    assert (first.total_bytes, first.used_bytes) == (15079 * MIB, 1024 * MIB)
    assert first.free_bytes == (15079 - 1024) * MIB
    assert second.processes == ()


@pytest.mark.parametrize("era", ERAS)
async def test_readings_have_the_versions_of_the_inventory(era: int, driver: MakeDriver) -> None:
    driver(era=era, cards=[card("T4")])
    async with Nvml() as gpus:
        found, inventory = await gpus.readings(), await gpus.inventory()
    assert (found.driver, found.cuda) == (inventory.driver, inventory.cuda)
    assert str(found.driver).startswith(f"{era}.")


@pytest.mark.parametrize(
    ("era", "reserved", "remapped"),
    [(418, None, None), (440, None, None), (470, None, 0), (535, 669 * MIB, 0), (580, 669 * MIB, 0)],
)
async def test_values_that_a_driver_version_lacks_are_absent(
    era: int, reserved: object, remapped: object, driver: MakeDriver
) -> None:
    driver(era=era, cards=[card("A100-80G")])
    async with Nvml() as gpus:
        (found,) = (await gpus.readings()).cards
    assert (found.reserved_bytes, found.remapped_corrected) == (reserved, remapped)


@pytest.mark.parametrize(
    ("reported", "read"),
    [
        ({"gpu_util": 20, "memory_util": 3}, {"gpu_percent": 20, "memory_percent": 3}),
        ({"encoder_util": 4, "decoder_util": 5}, {"encoder_percent": 4, "decoder_percent": 5}),
        ({"temperature": 32, "memory_temperature": 40}, {"celsius": 32, "memory_celsius": 40}),
        ({"power_mw": 55_000, "power_limit_mw": 300_000}, {"power_mw": 55_000, "power_limit_mw": 300_000}),
        ({"energy_mj": 2**40}, {"energy_mj": 2**40}),
        ({"sm_clock": 1590, "memory_clock": 877}, {"sm_mhz": 1590, "memory_mhz": 877}),
        (
            {"pcie_tx_kib": 1, "pcie_rx_kib": 2, "pcie_replays": 3},
            {"pcie_tx_kb": 1, "pcie_rx_kb": 2, "pcie_replays": 3},
        ),
        ({"ecc_corrected": 1, "ecc_uncorrected": 2}, {"ecc_corrected": 1, "ecc_uncorrected": 2}),
        (
            {"ecc_corrected_ever": 3, "ecc_uncorrected_ever": 4},
            {"ecc_corrected_ever": 3, "ecc_uncorrected_ever": 4},
        ),
        (
            {"remapped_corrected": 1, "remapped_uncorrected": 2, "remap_pending": 0, "remap_failed": 1},
            {"remapped_corrected": 1, "remapped_uncorrected": 2, "remap_failed": True},
        ),
    ],
)
async def test_sensors_are_read_and_absent_ones_are_none(
    stub: NvmlStub, gpus: Nvml, reported: dict[str, int], read: dict[str, Any]
) -> None:
    stub.set(0, **reported)
    stub.set(1, **dict.fromkeys(reported))
    first, second = (await gpus.readings()).cards
    assert {name: getattr(first, name) for name in read} == read
    assert {getattr(second, name) for name in read} == {None}


async def test_a_failed_sensor_affects_only_its_own_value(stub: NvmlStub, gpus: Nvml) -> None:
    stub.fail("nvmlDeviceGetPowerUsage", pynvml.NVML_ERROR_UNKNOWN, card=1)
    first, second = (await gpus.readings()).cards
    assert (first.power_mw, second.power_mw, second.celsius) == (30_000, None, 35)


async def test_a_gpu_that_is_lost_is_unreadable_until_it_is_back(stub: NvmlStub, gpus: Nvml) -> None:
    stub.lose(0)
    found = await gpus.readings()
    assert [each.index for each in found.cards] == [1]
    assert list(found.unreadable) == [0]
    assert "GPU is lost" in found.unreadable[0]
    stub.restore(0)
    assert len((await gpus.readings()).cards) == 2


async def test_an_added_gpu_is_read(stub: NvmlStub) -> None:
    async with Nvml(reopen_s=3600, sysfs=stub.sysfs) as gpus:
        assert len((await gpus.readings()).cards) == 2
        stub.cards([*stub.description.cards, card("P40")])
        assert [each.model for each in (await gpus.readings()).cards] == ["Tesla T4", "Tesla T4", "Tesla P40"]


async def test_a_process_of_two_kinds_is_one(stub: NvmlStub, gpus: Nvml) -> None:
    stub.processes(0, [GpuProcess(10, 1000, kind="compute"), GpuProcess(10, 1000, kind="graphics")])
    assert (await gpus.readings()).cards[0].processes == (ProcessReading(10, 1000 * MIB, IDLE),)


async def test_a_process_that_the_samples_leave_out_beside_another_one_was_idle(
    stub: NvmlStub, gpus: Nvml
) -> None:
    """A container with a small compute share is in few samples; its launch rate must not wait for them."""
    stub.processes(0, [GpuProcess(10, 1000, sm=98), IDLING])
    stub.set(0, gpu_util=98)
    _, idle = (await gpus.processes())[stub.uuid(0)]
    assert idle == ProcessReading(11, 24 * MIB, IDLE, sampled=True)


@pytest.mark.parametrize("gpu_util", [0, 7])
async def test_without_any_sample_only_an_idle_gpu_shows_that_processes_are_idle(
    stub: NvmlStub, gpus: Nvml, gpu_util: int
) -> None:
    stub.processes(0, [IDLING])
    stub.set(0, gpu_util=gpu_util)
    expected = ProcessReading(11, 24 * MIB, IDLE, sampled=gpu_util == 0)
    assert (await gpus.processes())[stub.uuid(0)] == (expected,)


async def test_clients_of_mps_are_processes(stub: NvmlStub, gpus: Nvml) -> None:
    stub.processes(0, [GpuProcess(10, 7, sm=3, kind="mps")])
    assert (await gpus.readings()).cards[0].processes == (ProcessReading(10, 7 * MIB, Load(3, 0)),)


async def test_unsupported_utilization_is_none(stub: NvmlStub, gpus: Nvml) -> None:
    stub.processes(0, [BUSY])
    stub.fail("nvmlDeviceGetProcessUtilization", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert (await gpus.readings()).cards[0].processes == (ProcessReading(10, 1000 * MIB, None),)


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_UNKNOWN])
async def test_a_gpu_without_a_process_list_has_all_other_values(
    stub: NvmlStub, gpus: Nvml, code: int
) -> None:
    for kind in ("Compute", "Graphics", "MPSCompute"):
        for version in ("", "_v2", "_v3"):
            stub.fail(f"nvmlDeviceGet{kind}RunningProcesses{version}", code, card=0)
    first, second = (await gpus.readings()).cards
    assert (first.processes, first.celsius, second.processes) == (None, 35, ())


async def test_a_busy_process_is_busy_in_every_sample(stub: NvmlStub, gpus: Nvml) -> None:
    """The stub, like drivers, has one sample per second; a read before the next one returns the last."""
    stub.processes(0, [BUSY, IDLING])
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        assert (await gpus.readings()).cards[0].processes == SHOWN


async def test_xids_are_counted_by_gpu(stub: NvmlStub, gpus: Nvml) -> None:
    first, second = (await gpus.readings()).cards
    assert (first.last_xid, first.xids) == (0, {})
    for code in (31, 31, 48):
        stub.xid(1, code)
    stub.xid(None, 79)
    first, second = (await gpus.readings()).cards
    assert (first.last_xid, first.xids) == (0, {})
    assert (second.last_xid, second.xids) == (48, {31: 2, 48: 1})


async def test_an_event_about_the_recovery_action_is_no_xid(driver: MakeDriver) -> None:
    stub = driver(cards=[card("H100")])
    async with Nvml() as gpus:
        await gpus.readings()
        stub.require(0, 1)
        (found,) = (await gpus.readings()).cards
    assert (found.last_xid, found.xids) == (154, {154: 1})


async def test_without_xid_events_no_xids_are_counted(stub: NvmlStub, gpus: Nvml) -> None:
    stub.fail("nvmlEventSetCreate", pynvml.NVML_ERROR_NOT_SUPPORTED)
    (first, _) = (await gpus.readings()).cards
    assert (first.last_xid, first.xids) == (None, None)


async def test_a_driver_that_hangs_is_an_error_in_time(stub: NvmlStub, gpus: Nvml) -> None:
    stub.hang()
    with pytest.raises(GpuError, match="does not respond"):
        await gpus.readings()


# --- processes alone ----------------------------------------------------------------------------


async def test_processes_are_listed_by_gpu_and_xids_are_not_consumed(stub: NvmlStub, gpus: Nvml) -> None:
    stub.processes(0, [BUSY, IDLING])
    faults = gpus.faults()
    waiting = asyncio.ensure_future(anext(faults))
    await asyncio.sleep(0.05)
    stub.xid(0, 79)
    for _ in range(3):
        assert await gpus.processes() == {stub.uuid(0): SHOWN, stub.uuid(1): ()}
    assert (await soon(waiting)).xid == 79
    await faults.aclose()  # type: ignore[attr-defined]


async def test_a_gpu_without_a_process_list_is_excluded(stub: NvmlStub, gpus: Nvml) -> None:
    stub.processes(1, [BUSY])
    stub.lose(0)
    assert await gpus.processes() == {stub.uuid(1): SHOWN[:1]}
    stub.fail("nvmlDeviceGetProcessUtilization", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert await gpus.processes() == {stub.uuid(1): (ProcessReading(10, 1000 * MIB, None),)}
