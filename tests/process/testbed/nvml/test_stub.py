"""The stub, read by the real pynvml; tests/process/adapters/nvml reads every value."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gpushare.errors import ConfigError
from testbed.nvml import ERAS, GpuProcess, NvmlGpu, NvmlStub, Pair, card
from tests.support.fixtures.nvml import in_child, load, memory_limits, needs_compiler

pytestmark = needs_compiler

MIB = 1024 * 1024


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NvmlStub]:
    """A T4 and an A100 of the newest driver, open in this process."""
    made = load(NvmlStub(tmp_path, cards=[card("T4"), card("A100-40G")]), monkeypatch)
    pynvml.nvmlInit()
    yield made
    made.heal()
    pynvml.nvmlShutdown()


def handle(index: int = 0) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


@pytest.mark.parametrize("era", ERAS)
def test_memory_includes_the_reserve_as_in_the_driver_of_the_era(
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


def test_a_process_finds_the_gpus_by_environment_variables(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path, cards=[card("T4"), card("P40")])
    program = """
import json, pynvml
pynvml.nvmlInit()
handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
print(json.dumps([pynvml.nvmlDeviceGetName(handle) for handle in handles]))
"""
    assert in_child(program, stub.env) == ["Tesla T4", "Tesla P40"]


def test_a_sample_is_returned_once(stub: NvmlStub) -> None:
    stub.processes(0, [GpuProcess(11, sm=30)])
    far_ahead = (int(time.time()) + 3600) * 1_000_000
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetProcessUtilization(handle(), far_ahead)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetSamples(handle(), pynvml.NVML_GPU_UTILIZATION_SAMPLES, far_ahead)


def test_a_function_can_fail_with_a_different_error_on_each_gpu(stub: NvmlStub) -> None:
    stub.fail("nvmlDeviceGetName", pynvml.NVML_ERROR_MEMORY, card=0)
    stub.fail("nvmlDeviceGetName", pynvml.NVML_ERROR_NO_PERMISSION, card=1)
    with pytest.raises(pynvml.NVMLError_Memory):
        pynvml.nvmlDeviceGetName(handle(0))
    with pytest.raises(pynvml.NVMLError_NoPermission):
        pynvml.nvmlDeviceGetName(handle(1))


def test_replaced_gpus_appear_after_the_next_init(stub: NvmlStub) -> None:
    first = handle()
    stub.cards([card("H100")])
    assert pynvml.nvmlDeviceGetCount() == 2
    assert pynvml.nvmlDeviceGetName(first) == "NVIDIA H100 80GB HBM3"  # same position, same UUID
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        handle(1)
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 1


def test_events_after_registration_arrive_in_order(stub: NvmlStub) -> None:
    stub.xid(0, 31)
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(handle(), pynvml.nvmlEventTypeXidCriticalError, events)
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait(events, 0)
    stub.xid(1, 43)  # that GPU is not registered
    stub.xid(0, 48)
    stub.xid(None, 79)
    seen = [pynvml.nvmlEventSetWait(events, 1000) for _ in range(2)]
    assert [(bool(event.device), event.eventData) for event in seen] == [(True, 48), (False, 79)]
    pynvml.nvmlEventSetFree(events)


def test_a_recovery_action_changes_with_events_and_is_cleared_by_a_reset(stub: NvmlStub) -> None:
    events = pynvml.nvmlEventSetCreate()
    types = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeGpuRecoveryAction
    pynvml.nvmlDeviceRegisterEvents(handle(), types, events)
    stub.require(0, pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET)
    seen = [pynvml.nvmlEventSetWait(events, 1000) for _ in range(2)]
    assert [(event.eventType, event.eventData) for event in seen] == [
        (pynvml.nvmlEventTypeXidCriticalError, 154),
        (pynvml.nvmlEventTypeGpuRecoveryAction, 0),
    ]
    assert recovery_action().value.uiVal == pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET
    stub.reset(0)
    assert recovery_action().value.uiVal == pynvml.NVML_GPU_RECOVERY_ACTION_NONE
    pynvml.nvmlEventSetFree(events)


def recovery_action() -> Any:
    (found,) = pynvml.nvmlDeviceGetFieldValues(handle(), [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    return found


def test_a_field_fails_alone_and_keeps_its_undefined_value(stub: NvmlStub) -> None:
    stub.set(0, recovery_action=1)
    stub.fail("nvmlDeviceGetFieldValues[230]", pynvml.NVML_ERROR_UNKNOWN, card=0)
    fields = [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL]
    failed, other = pynvml.nvmlDeviceGetFieldValues(handle(), fields)
    assert (failed.nvmlReturn, failed.value.uiVal) == (pynvml.NVML_ERROR_UNKNOWN, 0)
    assert other.nvmlReturn == pynvml.NVML_SUCCESS


@pytest.mark.parametrize("era", [era for era in ERAS if not ERAS[era].has_recovery_action])
def test_a_driver_before_565_knows_no_recovery_action(
    era: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = load(NvmlStub(tmp_path, era=era, cards=[card("T4", recovery_action=1)]), monkeypatch)
    pynvml.nvmlInit()
    stub.require(0, pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET)
    assert recovery_action().nvmlReturn == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert not pynvml.nvmlDeviceGetSupportedEventTypes(handle()) & pynvml.nvmlEventTypeGpuRecoveryAction
    assert stub.description.events == ()
    pynvml.nvmlShutdown()


def test_a_gpu_in_use_is_not_reset(stub: NvmlStub) -> None:
    stub.processes(0, [GpuProcess(7)])
    with pytest.raises(ConfigError, match="card 0 is in use by process 7: it cannot be reset"):
        stub.reset(0)


def test_gpus_are_linked_as_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_with_an_invalid_state_every_call_fails(stub: NvmlStub, capfd: pytest.CaptureFixture[str]) -> None:
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


def test_an_invalid_change_has_no_effect(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path, cards=[card("T4")])
    before = stub.description, (tmp_path / "state").read_text()
    changes: list[Callable[[], None]] = [
        lambda: stub.set(0, used_mib=15080),
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


def test_uuids_differ_by_folder(tmp_path: Path) -> None:
    cards: list[NvmlGpu] = [card("T4")] * 2
    here, there = NvmlStub(tmp_path / "a", cards=cards), NvmlStub(tmp_path / "b", cards=cards)
    assert len({stub.uuid(index) for stub in (here, there) for index in range(2)}) == 4
    assert NvmlStub(tmp_path / "a", cards=cards).uuid(0) == here.uuid(0)


@pytest.mark.needs("root")
def test_the_memory_limits_of_a_cgroup_are_those_that_were_set_last(stub: NvmlStub, tmp_path: Path) -> None:
    group = tmp_path / "group"
    group.mkdir()
    (group / "cgroup.procs").touch()
    with pytest.raises(pynvml.NVMLError_NotFound):
        limits_of(group)
    set_limits(group, 1024 * MIB, 4301 * MIB)
    set_limits(group, 0, 2048 * MIB)
    assert limits_of(group) == (0, 2048 * MIB)
    set_limits(group, 0, pynvml.NVML_DEVICE_MEMORY_LIMIT_MAX)
    with pytest.raises(pynvml.NVMLError_NotFound):
        limits_of(group)
    assert memory_limits(stub) == {str(group): (0, pynvml.NVML_DEVICE_MEMORY_LIMIT_MAX)}


@pytest.mark.needs("root")
@pytest.mark.usefixtures("stub")
def test_limits_that_the_gpu_cannot_hold_and_folders_without_processes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        set_limits(tmp_path, 2 * MIB, MIB)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        set_limits(tmp_path, 0, 15361 * MIB)
    with pytest.raises(pynvml.NVMLError_OperatingSystem):
        set_limits(tmp_path, 0, MIB)


def set_limits(group: Path, soft: int, hard: int) -> None:
    limits = pynvml.c_nvmlSetMemoryLimits_v1_t(str(group).encode(), soft, hard)
    pynvml.nvmlDeviceSetMemoryLimits_v1(handle(), limits)


def limits_of(group: Path) -> tuple[int, int]:
    limits = pynvml.c_nvmlGetMemoryLimits_v1_t(str(group).encode())
    pynvml.nvmlDeviceGetMemoryLimits_v1(handle(), limits)
    return limits.softLimit, limits.hardLimit
