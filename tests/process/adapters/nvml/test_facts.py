"""What the driver answers about the health of GPUs, of every era, and what it does not."""

from collections.abc import AsyncIterator

import pynvml
import pytest
import pytest_asyncio

from gpushare.adapters.nvml import Nvml
from gpushare.model.hardware import GpuFacts
from testbed.nvml import ERAS, NvmlGpu, NvmlStub, card
from testbed.nvml.eras import functions
from tests.support.fixtures.nvml import MakeDriver, needs_compiler

pytestmark = needs_compiler

RECOVERY = "nvmlDeviceGetFieldValues[230]"
WITH_RECOVERY = [era for era in ERAS if ERAS[era].has_recovery_action]
WITHOUT_RECOVERY = [era for era in ERAS if not ERAS[era].has_recovery_action]


@pytest.fixture
def stub(driver: MakeDriver) -> NvmlStub:
    """The newest driver with an H100 and a T4."""
    return driver(cards=[card("H100"), card("T4")])


@pytest_asyncio.fixture
async def gpus(stub: NvmlStub) -> AsyncIterator[Nvml]:
    async with Nvml(timeout_s=1, reopen_s=0, sysfs=stub.sysfs) as made:
        await made.inventory()
        yield made
        stub.heal()


async def of(gpus: Nvml, stub: NvmlStub, index: int = 0) -> GpuFacts:
    return (await gpus.facts())[stub.uuid(index)]


async def of_card(driver: MakeDriver, era: int, described: NvmlGpu) -> GpuFacts:
    stub = driver(era=era, cards=[described])
    async with Nvml() as gpus:
        await gpus.inventory()
        return await of(gpus, stub)


@pytest.mark.parametrize("era", ERAS)
async def test_a_healthy_h100_answers_on_every_era(era: int, driver: MakeDriver) -> None:
    remapped = False if "nvmlDeviceGetRemappedRows" in functions(era) else None
    recovery = 0 if era in WITH_RECOVERY else None
    found = await of_card(driver, era, card("H100"))
    assert found == GpuFacts(recovery=recovery, uncorrected_ecc=0, remap_failed=remapped)


@pytest.mark.parametrize("action", range(9))
@pytest.mark.parametrize("era", WITH_RECOVERY)
async def test_the_recovery_action_is_that_of_the_driver(era: int, action: int, driver: MakeDriver) -> None:
    found = await of_card(driver, era, card("H100", recovery_action=action))
    assert found.recovery == action


@pytest.mark.parametrize("era", WITHOUT_RECOVERY)
async def test_drivers_that_know_no_recovery_action_report_none(era: int, driver: MakeDriver) -> None:
    found = await of_card(driver, era, card("H100", recovery_action=1))
    assert (found.recovery, found.failure) == (None, None)


@pytest.mark.parametrize("function", [RECOVERY, "nvmlDeviceGetFieldValues"])
@pytest.mark.parametrize(
    "code",
    [
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_PERMISSION,
    ],
)
async def test_a_gpu_may_have_no_recovery_action(
    stub: NvmlStub, gpus: Nvml, function: str, code: int
) -> None:
    stub.set(0, recovery_action=1)
    stub.fail(function, code)
    found = await of(gpus, stub)
    assert (found.recovery, found.failure) == (None, None)


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (RECOVERY, "nvmlDeviceGetFieldValues of field 230"),
        ("nvmlDeviceGetFieldValues", "nvmlDeviceGetFieldValues"),
        ("nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetTotalEccErrors"),
        ("nvmlDeviceGetRemappedRows", "nvmlDeviceGetRemappedRows"),
        ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo"),
        ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperature"),
    ],
)
async def test_an_answer_that_cannot_be_read_is_a_failure_of_its_gpu_alone(
    stub: NvmlStub, gpus: Nvml, function: str, named: str
) -> None:
    stub.fail(function, pynvml.NVML_ERROR_UNKNOWN, card=0)
    assert await of(gpus, stub) == GpuFacts(failure=f"{named}: Unknown Error (999)")
    assert (await of(gpus, stub, 1)).failure is None
    stub.heal()
    assert (await of(gpus, stub)).failure is None


async def test_a_reset_clears_what_the_driver_says(stub: NvmlStub, gpus: Nvml) -> None:
    stub.set(0, recovery_action=4, ecc_uncorrected=3, remap_failed=1)
    assert await of(gpus, stub) == GpuFacts(recovery=4, uncorrected_ecc=3, remap_failed=True)
    stub.reset(0)
    assert await of(gpus, stub) == GpuFacts(recovery=0, uncorrected_ecc=0, remap_failed=True)


async def test_a_t4_remaps_no_rows(stub: NvmlStub, gpus: Nvml) -> None:
    assert await of(gpus, stub, 1) == GpuFacts(recovery=0, uncorrected_ecc=0, remap_failed=None)


async def test_a_gpu_without_ecc_counts_no_errors(stub: NvmlStub, gpus: Nvml) -> None:
    stub.set(0, ecc=0)
    assert (await of(gpus, stub)).uncorrected_ecc is None


async def test_a_pending_remapping_is_no_failed_one(stub: NvmlStub, gpus: Nvml) -> None:
    stub.set(0, remap_pending=1, remapped_uncorrected=2)
    assert (await of(gpus, stub)).remap_failed is False


async def test_a_gpu_without_a_temperature_answers(stub: NvmlStub, gpus: Nvml) -> None:
    stub.set(0, temperature=None)
    assert (await of(gpus, stub)).failure is None


async def test_a_lost_gpu_does_not_answer_until_it_is_back(stub: NvmlStub, gpus: Nvml) -> None:
    stub.lose(0)
    for _ in range(2):
        assert (await of(gpus, stub)).failure == "nvmlDeviceGetHandleByUUID: GPU is lost (15)"
    stub.restore(0)
    assert (await of(gpus, stub)).failure is None


async def test_a_gpu_that_the_driver_no_longer_lists_does_not_answer(stub: NvmlStub, gpus: Nvml) -> None:
    gone = stub.uuid(1)
    stub.cards([card("H100")])
    await gpus.facts()
    assert (await gpus.facts())[gone].failure == "nvmlDeviceGetHandleByUUID: Not Found (6)"
