"""Where each conflict is rejected: one row for each rule."""

from dataclasses import dataclass, replace

import pytest

from gpushare.deviceplugin.core.allocations import AllocateSnapshot
from gpushare.deviceplugin.core.conflicts import late_rejection
from gpushare.deviceplugin.core.decision import Allocated, Capabilities, decide
from gpushare.deviceplugin.core.interface import Rejected
from gpushare.deviceplugin.core.matching import AllocateCall, match
from gpushare.model.conflicts import RULES, Declared
from gpushare.model.device_lists import DeviceList
from gpushare.model.modes import LIMITING, SHARING, Mode
from gpushare.model.options import DeviceListStrategy
from tests.support.builders.gpu_pods import PICKS, allocations, gpu_pod, with_gpu_pods
from tests.support.builders.scheduling import demand

STRATEGIES = frozenset(DeviceListStrategy)
CAPABLE = Capabilities(isolation=True, library="0123456789abcdef", mps=True, mps_gpus=frozenset({"GPU-0"}))


@dataclass(frozen=True)
class Row:
    """What a container declares, where it is rejected, and what the rejection says."""

    declares: Declared
    says: tuple[str, ...]
    modes: frozenset[Mode] = SHARING
    strategies: frozenset[DeviceListStrategy] = STRATEGIES


ROWS = {
    "own_devices": Row(
        PICKS,
        ("sets NVIDIA_VISIBLE_DEVICES itself", "--device-list-strategy=volume-mounts"),
        strategies=frozenset({DeviceListStrategy.ENV}),
    ),
    "own_device_mounts": Row(
        Declared(mounts=("/var/run/nvidia-container-devices/all",)),
        ("has a mount on /var/run/nvidia-container-devices/all", "mount the volume elsewhere"),
        strategies=frozenset({DeviceListStrategy.MOUNTS}),
    ),
    "own_guarantee": Row(
        Declared((("NVIDIA_GPU_MEMORY_REQUEST", "1024"),)),
        ("sets NVIDIA_GPU_MEMORY_REQUEST itself", "remove it from the pod"),
    ),
    "own_mps": Row(
        Declared((("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=80G"),)),
        ("sets CUDA_MPS_PINNED_DEVICE_MEM_LIMIT itself", "remove it from the pod"),
        modes=frozenset({Mode.MPS}),
    ),
    "own_preload": Row(
        Declared(mounts=("/etc/ld.so.preload",)),
        (
            "has a mount on /etc/ld.so.preload",
            'admission.datadoghq.com/enabled="false"',
            'oneagent.dynatrace.com/inject="false"',
            "a whole GPU",
        ),
        modes=LIMITING,
    ),
    "own_files": Row(
        Declared(mounts=("/.gpushare/libgpushare.so",)),
        ("has a mount on /.gpushare/libgpushare.so", "mount the volume elsewhere"),
        modes=LIMITING,
    ),
    "preloaded_driver": Row(
        Declared((("LD_PRELOAD", "/usr/lib64/libcuda.so.1"),)),
        ("sets LD_PRELOAD with libcuda.so", "remove libcuda.so from its value"),
        modes=LIMITING,
    ),
    "user_namespace": Row(
        Declared(user_namespace=True),
        ("hostUsers: false", "gpushare.io/device-list"),
        strategies=frozenset({DeviceListStrategy.MOUNTS}),
    ),
}


def decided(declares: Declared | None, mode: Mode, strategy: DeviceListStrategy) -> Allocated | Rejected:
    asks = demand(4, core=10 if mode is Mode.CORE_MEM else 0)
    node = with_gpu_pods(allocations(14, mode=mode), gpu_pod("a", asks, declares=declares))
    found = match(AllocateSnapshot(node), AllocateCall(4))
    assert found
    return decide(node, found, ("x",), CAPABLE, 1, device_list=DeviceList(strategy))


def test_every_rule_has_a_row() -> None:
    assert [rule.reason for rule in RULES] == list(ROWS)


@pytest.mark.parametrize("reason", ROWS)
def test_a_conflict_is_rejected_exactly_where_it_undoes_the_share(reason: str) -> None:
    row = ROWS[reason]
    for mode in SHARING:
        for strategy in DeviceListStrategy:
            answer = decided(row.declares, mode, strategy)
            if mode in row.modes and strategy in row.strategies:
                assert isinstance(answer, Rejected), (mode, strategy)
                assert answer.reason == reason
                assert answer.text.startswith("pod default/a, container main ")
                for text in row.says:
                    assert text in answer.text
            else:
                assert isinstance(answer, Allocated), (mode, strategy, answer)


@pytest.mark.parametrize("reason", ROWS)
def test_a_container_that_got_the_response_of_an_equal_one_is_reported_in_the_same_words(reason: str) -> None:
    row = ROWS[reason]
    mode, strategy = min(row.modes), min(row.strategies)
    equal = decided(None, mode, strategy)
    assert isinstance(equal, Allocated)
    node = allocations(14, mode=mode)
    late = late_rejection(
        node, gpu_pod("a", 4, declares=row.declares), equal.allocation, DeviceList(strategy)
    )
    assert late == decided(row.declares, mode, strategy)


def test_a_pod_that_chooses_its_devices_is_rejected_if_the_specification_leaves_its_variable() -> None:
    node = with_gpu_pods(allocations(14), gpu_pod("a", 4, declares=PICKS))
    found = match(AllocateSnapshot(node), AllocateCall(4))
    assert found
    leaving = DeviceList(DeviceListStrategy.CDI, keeps_variable=True)
    answer = decide(node, found, ("x",), CAPABLE, 1, device_list=leaving)
    assert isinstance(answer, Rejected)
    assert answer.reason == "own_devices"


def test_conflicts_of_another_container_do_not_matter() -> None:
    pod = gpu_pod("a", 4, declares=PICKS)
    node = with_gpu_pods(allocations(14), replace(pod, conflicts={"other": pod.conflicts["main"]}))
    found = match(AllocateSnapshot(node), AllocateCall(4))
    assert found
    answer = decide(node, found, ("x",), CAPABLE, 1, device_list=DeviceList(DeviceListStrategy.ENV))
    assert isinstance(answer, Allocated)


def test_all_conflicts_are_named_at_once() -> None:
    declares = Declared((("NVIDIA_GPU_MEMORY_LIMIT", "9"),), ("/etc/ld.so.preload",))
    answer = decided(declares, Mode.CGPU, DeviceListStrategy.CDI)
    assert isinstance(answer, Rejected)
    assert answer.reason == "own_guarantee"
    assert "; it has a mount on /etc/ld.so.preload, which hides " in answer.text


def test_a_node_without_limits_takes_any_mount() -> None:
    declares = Declared(mounts=("/etc/ld.so.preload", "/.gpushare"))
    node = replace(allocations(14, mode=Mode.CGPU), isolated=False)
    node = with_gpu_pods(node, gpu_pod("a", 4, declares=declares))
    found = match(AllocateSnapshot(node), AllocateCall(4))
    assert found
    assert isinstance(decide(node, found, ("x",), CAPABLE, 1), Allocated)


def test_a_percentage_of_its_own_is_rejected_only_where_the_device_plugin_sets_one() -> None:
    declares = Declared((("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30"),))
    assert isinstance(decided(declares, Mode.MPS, DeviceListStrategy.CDI), Allocated)


def test_a_gpu_that_is_gone_keeps_no_container_from_being_reported() -> None:
    equal = decided(None, Mode.MPS, DeviceListStrategy.CDI)
    assert isinstance(equal, Allocated)
    pod = gpu_pod("a", 4, declares=ROWS["own_preload"].declares)
    node = replace(allocations(14, mode=Mode.MPS), cards=())
    assert late_rejection(node, pod, equal.allocation, DeviceList(DeviceListStrategy.CDI))
