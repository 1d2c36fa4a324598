"""Driver failures: missing, not responding, losing GPUs, reporting errors."""

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pynvml
import pytest
import pytest_asyncio

from gpushare.adapters.nvml import Nvml, events
from gpushare.adapters.nvml.library import Library, NvmlRefusal
from gpushare.adapters.nvml.replacement import ReplacementPolicy
from gpushare.errors import DriverReplacedError, GpuError
from gpushare.model.hardware import Fault, Inventory
from testbed import until
from testbed.nvml import ERAS, NvmlStub, card
from tests.support.fixtures.nvml import MakeDriver, in_child, needs_compiler, soon

pytestmark = needs_compiler

READ = """
import asyncio, json
from gpushare.adapters.nvml import Nvml
from gpushare.errors import GpuError

async def main():
    async with Nvml() as gpus:
        try:
            return [gpu.mib for gpu in (await gpus.inventory()).gpus]
        except GpuError as error:
            return str(error)

print(json.dumps(asyncio.run(main())))
"""


@pytest_asyncio.fixture
async def gpus(stub: NvmlStub) -> AsyncIterator[Nvml]:
    """With short timeouts, and immediate reopening of the library."""
    async with Nvml(timeout_s=1, poll_s=0.01, reopen_s=0, sysfs=stub.sysfs) as made:
        yield made
        stub.release()
        stub.heal()


# --- opening ------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["usr/lib64", "usr/lib/x86_64-linux-gnu"])
def test_the_library_is_found_below_the_root_folder_of_the_driver(tmp_path: Path, folder: str) -> None:
    """As in the driver container of the GPU Operator, whose libraries are not in the library path."""
    stub = NvmlStub(tmp_path, era=580, cards=[card("T4"), card("P40")])
    libraries = tmp_path / "root" / folder
    libraries.mkdir(parents=True)
    (libraries / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.65.06")
    shutil.copy(stub.library, libraries / "libnvidia-ml.so.580.65.06")
    code = READ.replace("Nvml()", f"Nvml(driver_root=Path({str(tmp_path / 'root')!r}))")
    environ = {"STUB_NVML": stub.env["STUB_NVML"]}
    assert in_child(f"from pathlib import Path\n{code}", environ) == [15079, 22919]


def test_the_library_is_found_where_the_environment_points(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path, era=418, cards=[card("T4"), card("P40")])
    assert in_child(READ, stub.env) == [15079, 22919]


@pytest.mark.needs("no-driver")
def test_without_a_library_the_error_has_the_remedy() -> None:
    answer = in_child(READ, {})
    assert answer.startswith("libnvidia-ml.so.1 was not found")
    assert "NVIDIA_DRIVER_CAPABILITIES=utility" in answer


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "the NVIDIA kernel driver is not loaded"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "have different versions, as after an upgrade"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "needs /dev/nvidiactl"),
        (pynvml.NVML_ERROR_MEMORY, r"NVML cannot be opened: nvmlInit: Insufficient Memory \(20\)"),
    ],
)
async def test_the_error_for_an_unusable_driver_has_a_remedy(
    stub: NvmlStub, gpus: Nvml, code: int, text: str
) -> None:
    stub.fail("nvmlInit", code)
    with pytest.raises(GpuError, match=text):
        await gpus.inventory()


async def test_a_driver_that_is_loaded_later_is_found(stub: NvmlStub, gpus: Nvml) -> None:
    stub.fail("nvmlInit", pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    with pytest.raises(GpuError):
        await gpus.inventory()
    stub.heal()
    assert len((await gpus.inventory()).gpus) == 2


async def test_after_a_lost_gpu_the_library_is_reopened(stub: NvmlStub, gpus: Nvml) -> None:
    await gpus.inventory()
    stub.cards([card("T4", uuid="GPU-c"), card("T4", uuid="GPU-d")])
    assert len((await gpus.inventory()).unreadable) == 2
    assert [gpu.uuid for gpu in (await gpus.inventory()).gpus] == ["GPU-c", "GPU-d"]


async def test_an_added_gpu_is_found_by_the_next_reading(stub: NvmlStub) -> None:
    async with Nvml(reopen_s=3600, sysfs=stub.sysfs) as gpus:
        before = (await gpus.inventory()).gpus
        stub.cards([*stub.description.cards, card("P40")])
        after = (await gpus.inventory()).gpus
        assert (after[:2], [gpu.index for gpu in after]) == (before, [0, 1, 2])


async def test_a_gpu_that_is_gone_does_not_answer(stub: NvmlStub, gpus: Nvml) -> None:
    await gpus.inventory()
    gone = stub.uuid(1)
    stub.cards(stub.description.cards[:1])
    assert len((await gpus.inventory()).gpus) == 1
    assert (await gpus.facts())[gone].failure == "nvmlDeviceGetHandleByUUID: Not Found (6)"


async def test_the_library_is_not_reopened_too_often(stub: NvmlStub) -> None:
    async with Nvml(reopen_s=3600) as gpus:
        await gpus.inventory()
        stub.cards([card("T4", uuid="GPU-other")])
        for _ in range(3):
            assert len((await gpus.inventory()).unreadable) == 2


@pytest.mark.usefixtures("stub")
async def test_closing_shuts_nvml_down() -> None:
    async with Nvml() as gpus:
        await gpus.inventory()
        assert pynvml.nvmlDeviceGetCount() == 2
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()
    with pytest.raises(GpuError, match="NVML is closed"):
        await gpus.inventory()


# --- a driver that is unloaded or replaced --------------------------------------------------------

NEXT_DRIVER = "535.183.06"
AT_ONCE = ReplacementPolicy(opened_s=0, unopened_s=3600)


async def test_a_driver_that_is_loaded_again_is_used_again(stub: NvmlStub, gpus: Nvml) -> None:
    await gpus.inventory()
    stub.unload_driver()
    for _ in range(2):
        for read in (gpus.inventory, gpus.facts, gpus.readings, gpus.processes):
            with pytest.raises(GpuError, match="the NVIDIA kernel driver is not loaded"):
                await read()
    stub.load_driver()
    assert len((await gpus.inventory()).gpus) == 2


async def test_a_replaced_driver_is_reported_after_three_readings(stub: NvmlStub) -> None:
    async with Nvml(reopen_s=0, replacement=AT_ONCE, sysfs=stub.sysfs) as gpus:
        await gpus.inventory()
        stub.load_driver(NEXT_DRIVER)
        for _ in range(2):
            with pytest.raises(GpuError) as raised:
                await gpus.inventory()
            assert not isinstance(raised.value, DriverReplacedError)
        for _ in range(2):
            with pytest.raises(DriverReplacedError, match="only a restart loads the new one"):
                await gpus.facts()


async def test_one_good_reading_ends_the_suspicion(stub: NvmlStub) -> None:
    async with Nvml(reopen_s=0, replacement=AT_ONCE, sysfs=stub.sysfs) as gpus:
        for _ in range(3):
            stub.load_driver("")
            await gpus.inventory()
            stub.load_driver(NEXT_DRIVER)
            for _ in range(2):
                with pytest.raises(GpuError, match=r"different versions|[Mm]ismatch"):
                    await gpus.inventory()


async def test_an_unopened_library_that_is_newer_than_the_driver_is_no_replacement(stub: NvmlStub) -> None:
    async with Nvml(sysfs=stub.sysfs) as other:
        await other.inventory()
    stub.load_driver(NEXT_DRIVER)
    async with Nvml(replacement=AT_ONCE, sysfs=stub.sysfs) as gpus:
        for _ in range(5):
            with pytest.raises(GpuError, match="have different versions") as raised:
                await gpus.inventory()
            assert not isinstance(raised.value, DriverReplacedError)


def test_a_new_process_uses_the_replaced_driver(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path, era=535, cards=[card("T4")])
    stub.load_driver(NEXT_DRIVER)
    assert in_child(READ, stub.env) == [15079]


# --- no response --------------------------------------------------------------------------------


async def test_a_driver_that_hangs_is_an_error_in_time_and_recovers(stub: NvmlStub, gpus: Nvml) -> None:
    await gpus.inventory()
    stub.hang()
    with pytest.raises(GpuError, match=r"NVML does not respond within 1 s \(nvmlDeviceGetCount\)"):
        await gpus.inventory()
    # Another call is not even made while the first one hangs.
    with pytest.raises(GpuError, match=r"does not respond .*\(nvmlDeviceGetCount\)"):
        await gpus.facts()
    stub.release()
    assert len((await recovered(gpus)).gpus) == 2


def test_a_process_ends_while_its_driver_hangs(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path, cards=[card("T4")])
    stub.hang()
    answer = in_child(READ.replace("Nvml()", "Nvml(timeout_s=0.2)"), stub.env)
    assert answer == "NVML does not respond within 0.2 s (nvmlInit)"


# --- XID errors ---------------------------------------------------------------------------------


RECOVERY_ERAS = [era for era in ERAS if ERAS[era].has_recovery_action]


@pytest.mark.parametrize("era", RECOVERY_ERAS)
async def test_a_changed_recovery_action_arrives_with_its_xid(era: int, driver: MakeDriver) -> None:
    stub = driver(era=era, cards=[card("H100")] * 2)
    async with Nvml(poll_s=0.01) as gpus:
        faults = await listening(gpus)
        stub.xid(1, 95)
        stub.require(1, 1)
        assert [await anext(faults) for _ in range(3)] == [
            Fault(stub.uuid(1), 95),
            Fault(stub.uuid(1), 154),
            Fault(stub.uuid(1), None),
        ]


async def test_a_gpu_without_events_about_recovery_actions_reports_xids(driver: MakeDriver) -> None:
    cards = [card("H100", events=0x1F), card("H100")]
    stub = driver(cards=cards)
    async with Nvml(poll_s=0.01) as gpus:
        faults = await listening(gpus)
        stub.require(0, 1)
        stub.xid(0, 48)
        assert [await anext(faults) for _ in range(2)] == [Fault(stub.uuid(0), 154), Fault(stub.uuid(0), 48)]


@pytest.mark.parametrize("era", ERAS)
async def test_xids_arrive_on_every_era(era: int, driver: MakeDriver) -> None:
    stub = driver(era=era, cards=[card("T4")] * 2)
    async with Nvml(poll_s=0.01) as gpus:
        faults = await listening(gpus)
        stub.xid(1, 48)
        stub.xid(None, 79)
        stub.xid(0, 31)
        assert [await anext(faults) for _ in range(3)] == [
            Fault(stub.uuid(1), 48),
            Fault(None, 79),
            Fault(stub.uuid(0), 31),
        ]


async def test_the_xid_of_a_gpu_that_fell_off_the_bus_names_it(stub: NvmlStub, gpus: Nvml) -> None:
    faults = await listening(gpus)
    stub.lose(1)
    stub.xid(1, 79)
    assert await anext(faults) == Fault(stub.uuid(1), 79)


async def test_xids_arrive_after_the_driver_hung(stub: NvmlStub, gpus: Nvml) -> None:
    faults = await listening(gpus)
    stub.hang()
    coming = asyncio.ensure_future(anext(faults))
    with pytest.raises(GpuError):
        await gpus.inventory()
    stub.xid(0, 79)
    stub.release()
    assert await soon(coming) == Fault(stub.uuid(0), 79)


async def test_an_xid_that_a_call_returns_after_its_timeout_is_not_lost(
    stub: NvmlStub, gpus: Nvml, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = await listening(gpus)
    stub.hang()
    coming = asyncio.ensure_future(anext(faults))

    async def timed_out() -> bool:
        return "nvmlEventSetWait" in capsys.readouterr().out

    await until(timed_out, "the poll to time out", 10, 0.01)
    stub.xid(0, 79)
    stub.release()
    assert await soon(coming) == Fault(stub.uuid(0), 79)


async def test_an_xid_before_a_failed_call_of_the_same_poll_is_not_lost(
    stub: NvmlStub, gpus: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = await listening(gpus)
    real, calls = events._next, itertools.count()

    def works_once(library: Library, made: object) -> object:
        if next(calls):
            raise NvmlRefusal("nvmlEventSetWait", pynvml.NVML_ERROR_UNKNOWN, "Unknown Error")
        return real(library, made)

    monkeypatch.setattr(events, "_next", works_once)
    stub.xid(0, 79)
    assert await soon(anext(faults)) == Fault(stub.uuid(0), 79)


async def test_xids_arrive_after_the_library_was_reopened(stub: NvmlStub, gpus: Nvml) -> None:
    faults = await listening(gpus)
    stub.lose(0)
    await gpus.inventory()
    stub.restore(0)
    await gpus.inventory()
    await registered(gpus)
    stub.xid(0, 48)
    assert await soon(anext(faults)) == Fault(stub.uuid(0), 48)


async def test_a_gpu_without_events_does_not_keep_the_others_from_reporting(
    stub: NvmlStub, gpus: Nvml
) -> None:
    stub.set(0, events=None)
    faults = await listening(gpus)
    stub.xid(0, 31)
    stub.xid(1, 48)
    assert await anext(faults) == Fault(stub.uuid(1), 48)


@pytest.mark.parametrize("function", ["nvmlEventSetCreate", "nvmlDeviceRegisterEvents"])
async def test_without_xid_events_the_stream_of_faults_ends(
    stub: NvmlStub, gpus: Nvml, function: str
) -> None:
    stub.fail(function, pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert await soon(anext(gpus.faults(), None)) is None


async def test_failed_registrations_of_gpus_are_retried(stub: NvmlStub, gpus: Nvml) -> None:
    stub.fail("nvmlDeviceRegisterEvents", pynvml.NVML_ERROR_GPU_IS_LOST)
    coming = asyncio.ensure_future(anext(gpus.faults()))
    with pytest.raises(GpuError, match="nvmlDeviceRegisterEvents: GPU is lost"):
        await gpus.run(gpus._events.poll)
    assert not coming.done()
    stub.heal()
    await registered(gpus)
    stub.xid(0, 48)
    assert await soon(coming) == Fault(stub.uuid(0), 48)


async def test_xids_arrive_after_a_moment_without_gpus(stub: NvmlStub, gpus: Nvml) -> None:
    """As while the driver is loaded again, or its only GPU is reset."""
    faults = await listening(gpus)
    present = stub.description.cards
    stub.cards([])
    assert (await gpus.inventory()).gpus == ()
    coming = asyncio.ensure_future(anext(faults))
    with pytest.raises(GpuError, match="no GPU"):
        await gpus.run(gpus._events.poll)
    assert not coming.done()
    stub.cards(present)
    await gpus.inventory()
    await registered(gpus)
    stub.xid(0, 48)
    assert await soon(coming) == Fault(stub.uuid(0), 48)


async def recovered(gpus: Nvml) -> Inventory:
    """The inventory, as soon as the driver responds."""

    async def read() -> Inventory | None:
        with suppress(GpuError):
            return await gpus.inventory()
        return None

    found = await until(read, "the driver to respond", 10)
    assert found is not None
    return found


async def registered(gpus: Nvml) -> None:
    """Return when the driver records the events of at least one GPU."""

    async def recording() -> bool:
        return await gpus.run(gpus._events.poll)

    await until(recording, "the driver to record events", 10, 0.01)


async def listening(gpus: Nvml) -> AsyncIterator[Fault]:
    """The stream of faults, after the registration of the events."""
    await registered(gpus)
    return gpus.faults()
