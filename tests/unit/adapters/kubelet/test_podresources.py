"""Devices of containers from a served PodResources API, merged as their readers need them."""

from pathlib import Path

import pytest

from gpushare.adapters.kubelet.podresources import PodResources
from gpushare.errors import KubeletError
from gpushare.model.devices import ContainerDevices
from tests.support.fakes.podresources import Lister, container, pod, served

MEM = "aliyun.com/gpu-mem"
CORE = "aliyun.com/gpu-core.percentage"


async def test_entries_of_one_device_each_become_one_value(tmp_path: Path) -> None:
    lister = Lister(
        pod("a", container("main", (MEM, ["x-0"]), (CORE, ["c-0"]), (MEM, ["x-1"]), (MEM, ["x-2"]))),
        pod("b", container("main", (MEM, ["y-0", "y-1"])), container("side", (MEM, ["y-2"]))),
        pod("idle", container("main")),
    )
    async with served(tmp_path, lister) as resources:
        assert set(await resources.list()) == {
            ContainerDevices("ml", "a", "main", MEM, frozenset({"x-0", "x-1", "x-2"})),
            ContainerDevices("ml", "a", "main", CORE, frozenset({"c-0"})),
            ContainerDevices("ml", "b", "main", MEM, frozenset({"y-0", "y-1"})),
            ContainerDevices("ml", "b", "side", MEM, frozenset({"y-2"})),
        }


async def test_a_device_listed_for_each_numa_node_counts_once(tmp_path: Path) -> None:
    async with served(tmp_path, Lister(pod("a", container("main", (MEM, ["x"]), (MEM, ["x"]))))) as resources:
        (found,) = await resources.list()
    assert found.ids == {"x"}


async def test_an_answer_beyond_grpcs_own_limit_is_read(tmp_path: Path) -> None:
    ids = [f"GPU-fef8089b-4820-abfc-e83e-94318197576e-_-{n:06d}" for n in range(60_000)]
    one_each = container("main", *((MEM, [each]) for each in ids))
    assert one_each.ByteSize() > 4 * 2**20
    async with served(tmp_path, Lister(pod("a", one_each))) as resources:
        (found,) = await resources.list()
    assert len(found.ids) == len(ids)


async def test_a_kubelet_that_does_not_respond_is_an_error(tmp_path: Path) -> None:
    lister = Lister()
    lister.silent = True
    async with served(tmp_path, lister):
        with pytest.raises(KubeletError, match=r"list of pod resources: .*DEADLINE_EXCEEDED"):
            await PodResources(tmp_path / "kubelet.sock", timeout_s=0.1).list()


async def test_a_missing_socket_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(KubeletError, match=rf"{tmp_path}/none\.sock: .*No such file"):
        await PodResources(tmp_path / "none.sock").list()
