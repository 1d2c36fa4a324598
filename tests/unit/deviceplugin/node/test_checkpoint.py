import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from gpushare.adapters.kubelet.api.deviceplugin_pb2 import ContainerAllocateResponse, Mount
from gpushare.contract import RESOURCE_CORE, RESOURCE_MEM, RESOURCE_WHOLE_GPU, VISIBLE_BY_MOUNTS
from gpushare.deviceplugin.core.reconcile import ServedContainer
from gpushare.deviceplugin.node.checkpoint import CheckpointReader, whole_gpus_by_name
from gpushare.isolation.layout import IsolationDirs, IsolationMounts, bind_mounts
from gpushare.model.devices import ContainerDevices
from tests.support.builders.gpu_pods import cards


def entry(answer: ContainerAllocateResponse, resource: str = RESOURCE_MEM) -> dict[str, Any]:
    return {
        "PodUID": "uid",
        "ContainerName": "main",
        "ResourceName": resource,
        "DeviceIDs": {"0": ["GPU-0-_-7", "GPU-0-_-3"]},
        "AllocResp": b64encode(answer.SerializeToString()).decode(),
    }


def write(path: Path, *entries: dict[str, Any]) -> None:
    path.write_text(
        json.dumps({"Data": {"PodDeviceEntries": list(entries), "RegisteredDevices": {}}, "Checksum": 1})
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kubelet_internal_checkpoint"


def read(path: Path) -> tuple[ServedContainer, ...] | None:
    recorded = CheckpointReader(path)(cards(14, 14))
    return recorded and recorded.served


def test_a_container_is_known_by_its_lowest_id_and_its_kept_answer(path: Path) -> None:
    mounts = [Mount(container_path=f"{VISIBLE_BY_MOUNTS}/GPU-1", host_path="/dev/null")]
    write(path, entry(ContainerAllocateResponse(mounts=mounts)))
    assert read(path) == (ServedContainer("uid", "main", "GPU-0-_-3", 2, ("GPU-1",)),)


def test_the_response_of_the_aliyun_plugin_names_a_gpu_by_index(path: Path) -> None:
    write(path, entry(ContainerAllocateResponse(envs={"NVIDIA_VISIBLE_DEVICES": "1"})))
    assert read(path) == (ServedContainer("uid", "main", "GPU-0-_-3", 2, ("GPU-1",)),)


UUID = "GPU-8f2c1d90-3e5a-4b17-9c2e-5da9abb51763"


def test_an_absent_gpu_keeps_its_part_of_a_container(path: Path) -> None:
    """Otherwise its units would count on the other GPU, and on none when it is back."""
    mounts = [
        Mount(container_path=f"{VISIBLE_BY_MOUNTS}/{name}", host_path="/dev/null") for name in ("GPU-1", UUID)
    ]
    write(path, entry(ContainerAllocateResponse(mounts=mounts)))
    assert read(path) == (ServedContainer("uid", "main", "GPU-0-_-3", 2, ("GPU-1", UUID)),)


def test_an_index_names_a_gpu_that_appears_later(path: Path) -> None:
    write(path, entry(ContainerAllocateResponse(envs={"NVIDIA_VISIBLE_DEVICES": "1"})))
    reader = CheckpointReader(path)
    before = reader(cards(14))
    assert reader(cards(14)) is before
    after = reader(cards(14, 14))
    assert (before and before.served[0].cards, after and after.served[0].cards) == ((), ("GPU-1",))


def test_the_recorded_response_has_the_enforcement_of_a_container(path: Path) -> None:
    binds = bind_mounts(IsolationDirs(), IsolationMounts("0123456789abcdef", "00000000000000aa"))
    mounts = [Mount(container_path=bind.inside, host_path=bind.host) for bind in binds]
    write(path, entry(ContainerAllocateResponse(envs={"NVIDIA_VISIBLE_DEVICES": "1"}, mounts=mounts)))
    (found,) = read(path) or ()
    assert found.bound == IsolationMounts("0123456789abcdef", "00000000000000aa")
    assert found.cards == ("GPU-1",)


@pytest.mark.parametrize("value", ["no-gpu-has-2GiB-to-run", "7", "GPU-of-another-node", ""])
def test_a_response_with_no_gpu_of_this_node_is_ignored(path: Path, value: str) -> None:
    write(path, entry(ContainerAllocateResponse(envs={"NVIDIA_VISIBLE_DEVICES": value})))
    assert read(path) == (ServedContainer("uid", "main", "GPU-0-_-3", 2, ()),)


def test_other_resources_are_not_read(path: Path) -> None:
    write(path, entry(ContainerAllocateResponse(), RESOURCE_CORE))
    assert read(path) == ()


@pytest.mark.parametrize("text", [None, "", "{", '{"Data": 1}'])
def test_a_missing_or_broken_file_returns_unknown_owners(path: Path, text: str | None) -> None:
    if text is not None:
        path.write_text(text)
    assert read(path) is None


def test_whole_gpus_are_read_by_pod(path: Path) -> None:
    nothing = ContainerAllocateResponse()
    whole = [
        {**entry(nothing, RESOURCE_WHOLE_GPU), "ContainerName": name, "DeviceIDs": {"-1": [each]}}
        for name, each in (("main", UUID), ("side", f"{UUID}::1"))
    ]
    write(path, *whole, {**entry(nothing, "rdma/hca"), "DeviceIDs": ["mlx5_0"]}, entry(nothing))
    recorded = CheckpointReader(path)(cards(14))
    assert recorded is not None
    assert recorded.whole_gpus == {"uid": {UUID, f"{UUID}::1"}}
    assert len(recorded.served) == 1


def test_the_kubelets_api_names_whole_gpus_of_pods_that_live_here_now() -> None:
    found = [
        ContainerDevices("default", "app", "main", RESOURCE_WHOLE_GPU, frozenset({"GPU-0"})),
        ContainerDevices("default", "gone", "main", RESOURCE_WHOLE_GPU, frozenset({"GPU-1"})),
        ContainerDevices("default", "app", "main", RESOURCE_MEM, frozenset({"GPU-1-_-7"})),
    ]
    assert whole_gpus_by_name(found, {"default/app": "app-uid"}) == {"app-uid": {"GPU-0"}}
