"""What programs see of the stub, through the real pynvml."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gpushare.errors import ConfigError
from testbed.nvml import ERAS, Card, NvmlStub, Pair, Process, card
from tests.fixtures.nvml import in_child, load, needs_compiler

pytestmark = needs_compiler

MIB = 1024 * 1024


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NvmlStub]:
    """A T4 and an A100 of driver 580, open in this process."""
    made = load(NvmlStub(tmp_path, cards=[card("T4"), card("A100-40G")]), monkeypatch)
    pynvml.nvmlInit()
    yield made
    made.heal()
    pynvml.nvmlShutdown()


def handle(index: int = 0) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


@pytest.mark.parametrize("era", ERAS)
def test_memory_is_told_as_the_driver_of_the_era_does(
    era: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(NvmlStub(tmp_path, era=era, cards=[card("T4", used_mib=1000)]), monkeypatch)
    pynvml.nvmlInit()
    first = pynvml.nvmlDeviceGetMemoryInfo(handle())
    total, used = (15360, 1281) if era > 500 else (15079, 1000)
    assert (first.total, first.used, first.free) == (total * MIB, used * MIB, 14079 * MIB)
    if era > 500:
        second = pynvml.nvmlDeviceGetMemoryInfo(handle(), pynvml.nvmlMemory_v2)
        assert (second.total, second.reserved, second.used, second.free) == (
            15360 * MIB,
            281 * MIB,
            1000 * MIB,
            14079 * MIB,
        )
    pynvml.nvmlShutdown()


def test_a_function_of_a_later_era_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(NvmlStub(tmp_path, era=418, cards=[card("T4")]), monkeypatch)
    pynvml.nvmlInit()
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetMigMode(handle())
    pynvml.nvmlShutdown()


def test_nothing_answers_before_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(NvmlStub(tmp_path, cards=[card("T4")]), monkeypatch)
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


def test_a_process_finds_the_cards_by_two_variables(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path, cards=[card("T4"), card("P40")])
    program = """
import json, pynvml
pynvml.nvmlInit()
handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
print(json.dumps([pynvml.nvmlDeviceGetName(handle) for handle in handles]))
"""
    assert in_child(program, stub.env) == ["Tesla T4", "Tesla P40"]


def test_a_card_tells_who_it_is(stub: NvmlStub) -> None:
    assert pynvml.nvmlDeviceGetUUID(handle(1)) == stub.uuid(1)
    assert pynvml.nvmlDeviceGetMinorNumber(handle(1)) == 1
    assert pynvml.nvmlDeviceGetSerial(handle(1)) == "1320000001"
    assert pynvml.nvmlDeviceGetCudaComputeCapability(handle(1)) == (8, 0)
    pci = pynvml.nvmlDeviceGetPciInfo(handle(1))
    assert (pci.busId, pci.busIdLegacy, pci.domain, pci.bus) == ("00000000:05:00.0", "0000:05:00.0", 0, 5)


@pytest.mark.parametrize("find", ["nvmlDeviceGetHandleByUUID", "nvmlDeviceGetHandleByPciBusId"])
def test_a_card_is_found_by_its_names(stub: NvmlStub, find: str) -> None:
    known = stub.description.cards[1]
    name = known.uuid if find.endswith("UUID") else known.pci
    assert pynvml.nvmlDeviceGetIndex(getattr(pynvml, find)(name.encode())) == 1
    with pytest.raises(pynvml.NVMLError_NotFound):
        getattr(pynvml, find)(b"GPU-none")


def test_what_a_card_does_not_tell_is_not_supported(stub: NvmlStub) -> None:
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetFanSpeed(handle())
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMigMode(handle())
    assert pynvml.nvmlDeviceGetMigMode(handle(1)) == [0, 0]
    stub.set(0, temperature=None)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetTemperature(handle(), 0)


def test_a_change_is_seen_by_the_next_call(stub: NvmlStub) -> None:
    stub.set(0, temperature=80, power_mw=69_500, gpu_util=97, ecc_uncorrected=2, pcie_tx_kib=7)
    assert pynvml.nvmlDeviceGetTemperature(handle(), 0) == 80
    assert pynvml.nvmlDeviceGetTemperatureV(handle(), 0) == 80
    assert pynvml.nvmlDeviceGetPowerUsage(handle()) == 69_500
    assert pynvml.nvmlDeviceGetUtilizationRates(handle()).gpu == 97
    assert pynvml.nvmlDeviceGetTotalEccErrors(handle(), 1, 0) == 2
    assert pynvml.nvmlDeviceGetPcieThroughput(handle(), 0) == 7


def test_field_values_say_each_for_itself_whether_they_are_there(stub: NvmlStub) -> None:
    stub.set(0, ecc_corrected=5)
    corrected, memory_temperature = pynvml.nvmlDeviceGetFieldValues(handle(), [3, 82])
    assert (corrected.nvmlReturn, corrected.value.ullVal) == (pynvml.NVML_SUCCESS, 5)
    assert memory_temperature.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_processes_have_their_memory_and_the_card_its_sum(stub: NvmlStub) -> None:
    stub.processes(0, [Process(10, 121), Process(11, 400), Process(12, 5, kind="graphics")])
    for version in ("_v2", "_v3"):
        listed = getattr(pynvml, f"nvmlDeviceGetComputeRunningProcesses{version}")(handle())
        assert [(p.pid, p.usedGpuMemory // MIB) for p in listed] == [(10, 121), (11, 400)]
    assert [p.pid for p in pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle())] == [12]
    assert pynvml.nvmlDeviceGetMPSComputeRunningProcesses(handle()) == []
    assert pynvml.nvmlDeviceGetMemoryInfo(handle(), pynvml.nvmlMemory_v2).used == 526 * MIB
    stub.set_used(0, 600)
    assert pynvml.nvmlDeviceGetMemoryInfo(handle(), pynvml.nvmlMemory_v2).used == 600 * MIB


def test_only_busy_processes_have_samples(stub: NvmlStub) -> None:
    stub.processes(0, [Process(10), Process(11, sm=30, memory=7)])
    (sample,) = pynvml.nvmlDeviceGetProcessUtilization(handle(), 0)
    assert (sample.pid, sample.smUtil, sample.memUtil) == (11, 30, 7)
    (load,) = pynvml.nvmlDeviceGetProcessesUtilizationInfo(handle(), 0)
    assert (load.pid, load.smUtil) == (11, 30)


def test_a_sample_is_given_once(stub: NvmlStub) -> None:
    stub.processes(0, [Process(11, sm=30)])
    far_ahead = (int(time.time()) + 3600) * 1_000_000
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetProcessUtilization(handle(), far_ahead)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetSamples(handle(), pynvml.NVML_GPU_UTILIZATION_SAMPLES, far_ahead)


def test_samples_of_the_last_minute(stub: NvmlStub) -> None:
    stub.set(0, gpu_util=42)
    kind, samples = pynvml.nvmlDeviceGetSamples(handle(), pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0)
    times = [sample.timeStamp for sample in samples]
    assert kind == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    assert {sample.sampleValue.uiVal for sample in samples} == {42}
    assert times == sorted(times)
    assert len(times) == 60


def test_a_function_fails_on_one_card_until_it_is_healed(stub: NvmlStub) -> None:
    stub.fail("nvmlDeviceGetName", pynvml.NVML_ERROR_UNKNOWN, card=1)
    assert pynvml.nvmlDeviceGetName(handle(0)) == "Tesla T4"
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetName(handle(1))
    stub.heal("nvmlDeviceGetName")
    assert pynvml.nvmlDeviceGetName(handle(1)) == "NVIDIA A100-SXM4-40GB"


def test_a_function_fails_on_two_cards_each_in_its_own_way(stub: NvmlStub) -> None:
    stub.fail("nvmlDeviceGetName", pynvml.NVML_ERROR_MEMORY, card=0)
    stub.fail("nvmlDeviceGetName", pynvml.NVML_ERROR_NO_PERMISSION, card=1)
    with pytest.raises(pynvml.NVMLError_Memory):
        pynvml.nvmlDeviceGetName(handle(0))
    with pytest.raises(pynvml.NVMLError_NoPermission):
        pynvml.nvmlDeviceGetName(handle(1))


def test_a_lost_card_answers_nothing_and_others_do(stub: NvmlStub) -> None:
    mine = handle()
    stub.lose(0)
    for call in (pynvml.nvmlDeviceGetUUID, pynvml.nvmlDeviceGetMemoryInfo):
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            call(mine)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        handle()
    assert pynvml.nvmlDeviceGetCount() == 2
    stub.restore(0)
    assert pynvml.nvmlDeviceGetUUID(mine) == stub.uuid(0)


def test_other_cards_are_seen_from_the_next_init_on(stub: NvmlStub) -> None:
    mine = handle()
    stub.cards([card("H100")])
    assert pynvml.nvmlDeviceGetCount() == 2
    assert pynvml.nvmlDeviceGetName(mine) == "NVIDIA H100 80GB HBM3"  # same place, same made-up UUID
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        handle(1)
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 1


def test_events_are_those_after_registration_in_order(stub: NvmlStub) -> None:
    stub.xid(0, 31)
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(handle(), pynvml.nvmlEventTypeXidCriticalError, events)
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait(events, 0)
    stub.xid(1, 43)  # that card is not registered
    stub.xid(0, 48)
    stub.xid(None, 79)
    seen = [pynvml.nvmlEventSetWait(events, 1000) for _ in range(2)]
    assert [(bool(event.device), event.eventData) for event in seen] == [(True, 48), (False, 79)]
    pynvml.nvmlEventSetFree(events)


def test_cards_are_linked_as_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [card("V100"), card("V100", numa=1), card("V100", switch_links=6)]
    load(NvmlStub(tmp_path, cards=cards, pairs=[Pair((0, 1), "single", nvlinks=2)]), monkeypatch)
    pynvml.nvmlInit()
    levels = [
        pynvml.nvmlDeviceGetTopologyCommonAncestor(handle(a), handle(b)) for a, b in ((0, 1), (0, 2), (1, 2))
    ]
    assert levels == [pynvml.NVML_TOPOLOGY_SINGLE, pynvml.NVML_TOPOLOGY_NODE, pynvml.NVML_TOPOLOGY_SYSTEM]
    assert [pynvml.nvmlDeviceGetNvLinkState(handle(), link) for link in range(6)] == [1, 1, 0, 0, 0, 0]
    assert pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle(), 1).busId == "00000000:05:00.0"
    assert pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle(2), 0) == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetNvLinkState(handle(), 6)
    pynvml.nvmlShutdown()


def test_a_state_that_makes_no_sense_is_an_error_of_every_call(
    stub: NvmlStub, capfd: pytest.CaptureFixture[str]
) -> None:
    state = stub.folder / "state"
    sound = state.read_text()
    state.write_text("driver 1\ncard 0\nweight 12\n")
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetCount()
    assert f"stub NVML: {state}:3 makes no sense: weight" in capfd.readouterr().err
    state.write_text(sound)
    assert pynvml.nvmlDeviceGetCount() == 2


def test_without_a_state_there_is_no_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(NvmlStub(tmp_path), monkeypatch)
    monkeypatch.delenv("STUB_NVML")
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        pynvml.nvmlInit()


def test_the_numa_node_is_in_sysfs(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path, cards=[card("T4", numa=1), card("T4", numa=None)])
    devices = stub.sysfs / "bus" / "pci" / "devices"
    assert (devices / "0000:04:00.0" / "numa_node").read_text() == "1\n"
    assert not (devices / "0000:05:00.0" / "numa_node").exists()


def test_another_process_takes_over_a_stub_as_it_is(tmp_path: Path) -> None:
    first = NvmlStub(tmp_path, era=470, cards=[card("T4")], pairs=[])
    first.xid(0, 79)
    first.hang()
    second = NvmlStub.attach(tmp_path)
    assert second.description == first.description
    second.release()
    second.xid(0, 48)
    assert [event.number for event in NvmlStub.attach(tmp_path).description.events] == [1, 2]


def test_there_is_no_stub_where_none_was_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no stub NVML in"):
        NvmlStub.attach(tmp_path)


def test_a_change_that_makes_no_sense_changes_nothing(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path, cards=[card("T4")])
    before = stub.description, (tmp_path / "state").read_text()
    changes: list[Callable[[], None]] = [
        lambda: stub.set_used(0, 15080),
        lambda: stub.set(0, weight=1),
        lambda: stub.set(0, fan=101),
        lambda: stub.lose(1),
        lambda: stub.xid(-1, 79),
        lambda: stub.fail("nvmlNothing", 3),
    ]
    for change in changes:
        with pytest.raises(ConfigError):
            change()
    assert (stub.description, (tmp_path / "state").read_text()) == before


def test_cards_have_other_uuids_in_other_folders(tmp_path: Path) -> None:
    cards: list[Card] = [card("T4")] * 2
    here, there = NvmlStub(tmp_path / "a", cards=cards), NvmlStub(tmp_path / "b", cards=cards)
    assert len({stub.uuid(index) for stub in (here, there) for index in range(2)}) == 4
    assert NvmlStub(tmp_path / "a", cards=cards).uuid(0) == here.uuid(0)
