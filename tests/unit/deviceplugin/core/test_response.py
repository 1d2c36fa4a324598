from dataclasses import replace
from typing import Any

import pytest

from gpushare.deviceplugin.core.allocations import Allocation, Enforcement
from gpushare.deviceplugin.core.interface import AllocateResponse, Mount
from gpushare.deviceplugin.core.response import ResponseSettings, legacy_failure, named_gpus, response_for
from gpushare.model.demand import Demand
from gpushare.model.device_lists import BY_MOUNTS, DeviceList
from gpushare.model.options import DeviceListStrategy, MemoryUnit
from tests.support.builders.gpu_pods import allocations, cards
from tests.support.builders.scheduling import demand

NODE = allocations(14, 15)


def answer(
    strategy: DeviceListStrategy, *where: tuple[str, int], asks: Demand | None = None, **style: Any
) -> AllocateResponse:
    grant = Allocation("uid", "main", "default/a", where or (("GPU-1", 4),), "x")
    return response_for(NODE, grant, asks or demand(6), DeviceList(strategy), ResponseSettings(**style))


def test_the_environment_is_that_of_the_aliyun_plugin() -> None:
    envs = answer(DeviceListStrategy.ENV, by_index=True).envs
    assert envs == {
        "NVIDIA_VISIBLE_DEVICES": "1",
        "ALIYUN_COM_GPU_MEM_IDX": "1",
        "ALIYUN_COM_GPU_MEM_POD": "6",
        "ALIYUN_COM_GPU_MEM_CONTAINER": "4",
        "ALIYUN_COM_GPU_MEM_DEV": "15",
    }


def test_the_node_label_switches_isolation_off() -> None:
    grant = Allocation("uid", "main", "default/a", (("GPU-1", 4),), "x")
    assert "CGPU_DISABLE" not in response_for(NODE, grant, demand(6), BY_MOUNTS, ResponseSettings()).envs
    reported = response_for(replace(NODE, isolated=False), grant, demand(6), BY_MOUNTS, ResponseSettings())
    assert reported.envs["CGPU_DISABLE"] == "true"


def test_gpus_are_named_by_uuid() -> None:
    assert answer(DeviceListStrategy.ENV).envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"


def test_volume_mounts_name_each_gpu_by_a_mount() -> None:
    found = answer(DeviceListStrategy.MOUNTS, ("GPU-1", 3), ("GPU-0", 3), asks=demand(6, cards=2))
    assert found.envs["NVIDIA_VISIBLE_DEVICES"] == "/var/run/nvidia-container-devices"
    assert found.envs["ALIYUN_COM_GPU_MEM_IDX"] == "0"
    assert found.envs["ALIYUN_COM_GPU_MEM_DEV"] == "14"
    assert found.envs["ALIYUN_COM_GPU_MEM_CONTAINER"] == "6"
    assert found.mounts == (
        Mount("/dev/null", "/var/run/nvidia-container-devices/GPU-0"),
        Mount("/dev/null", "/var/run/nvidia-container-devices/GPU-1"),
    )


def test_cdi_devices_have_the_kind_of_their_specification() -> None:
    grant = Allocation("uid", "main", "default/a", (("GPU-1", 4),), "x")
    by_plugin = DeviceList(DeviceListStrategy.CDI, cdi_kind="k8s.device-plugin.nvidia.com/gpu")
    found = response_for(NODE, grant, demand(6), by_plugin, ResponseSettings())
    assert found.cdi_devices == ("k8s.device-plugin.nvidia.com/gpu=GPU-1",)
    assert named_gpus(found.envs, (), found.cdi_devices) == ("GPU-1",)


def test_cdi_names_the_devices_and_keeps_the_nvidia_runtime_out_of_it() -> None:
    found = answer(DeviceListStrategy.CDI)
    assert found.cdi_devices == ("nvidia.com/gpu=GPU-1",)
    assert found.envs["NVIDIA_VISIBLE_DEVICES"] == "void"


@pytest.mark.parametrize("strategy", list(DeviceListStrategy))
def test_the_gpus_of_a_response_can_be_read_back(strategy: DeviceListStrategy) -> None:
    found = answer(strategy, ("GPU-1", 3), ("GPU-0", 3), asks=demand(6, cards=2))
    paths = tuple(mount.container_path for mount in found.mounts)
    assert named_gpus(found.envs, paths, found.cdi_devices) == ("GPU-0", "GPU-1")


@pytest.mark.parametrize("strategy", list(DeviceListStrategy))
def test_a_limited_container_gets_library_limit_and_region_with_any_strategy(
    strategy: DeviceListStrategy,
) -> None:
    grant = Allocation("uid", "main", "default/a", (("GPU-1", 4),), "x")
    limited = replace(grant, enforcement=Enforcement("00000000000000aa", "0123456789abcdef", "text"))
    free = response_for(NODE, grant, demand(4), DeviceList(strategy), ResponseSettings())
    found = response_for(NODE, limited, demand(4), DeviceList(strategy), ResponseSettings())
    library, state = "/var/lib/gpushare/0123456789abcdef", "/run/gpushare/00000000000000aa"
    assert found.mounts == (
        *free.mounts,
        Mount(f"{state}/library", "/.gpushare-library"),
        Mount(f"{library}/libgpushare.so", "/.gpushare/libgpushare.so"),
        Mount(f"{library}/ld.so.preload", "/etc/ld.so.preload"),
        Mount(f"{state}/limit", "/.gpushare/limit"),
        Mount(f"{state}/region", "/.gpushare/region", read_only=False),
    )
    assert (found.envs, found.cdi_devices) == (free.envs, free.cdi_devices)


def test_a_response_of_the_aliyun_plugin_has_an_index() -> None:
    assert named_gpus({"NVIDIA_VISIBLE_DEVICES": "3"}, (), ()) == ("3",)


def test_other_mounts_are_ignored() -> None:
    assert (
        named_gpus({}, ("/var/run/nvidia-container-devices-of-others/x", "/data"), ("vendor.com/net=a",))
        == ()
    )


def test_the_legacy_failure_names_the_requested_amount() -> None:
    assert legacy_failure(5, MemoryUnit.GIB, cards(14), "no_room").envs == {
        "NVIDIA_VISIBLE_DEVICES": "no-gpu-has-5GiB-to-run",
        "ALIYUN_COM_GPU_MEM_IDX": "-1",
        "ALIYUN_COM_GPU_MEM_POD": "5",
        "ALIYUN_COM_GPU_MEM_CONTAINER": "5",
        "ALIYUN_COM_GPU_MEM_DEV": "14",
    }
