"""Devices of containers from a served PodResources API, merged as their readers need them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpushare.adapters.kubelet.api import podresources_pb2 as api
from gpushare.adapters.kubelet.api.podresources_pb2_grpc import (
    PodResourcesListerServicer,
    add_PodResourcesListerServicer_to_server,
)
from gpushare.adapters.kubelet.podresources import ContainerDevices, PodResources
from gpushare.errors import KubeletError

MEM = "aliyun.com/gpu-mem"
CORE = "aliyun.com/gpu-core.percentage"


def pod(name: str, *containers: api.ContainerResources) -> api.PodResources:
    return api.PodResources(name=name, namespace="ml", containers=containers)


def container(name: str, *devices: tuple[str, list[str]]) -> api.ContainerResources:
    entries = [api.ContainerDevices(resource_name=resource, device_ids=ids) for resource, ids in devices]
    return api.ContainerResources(name=name, devices=entries)


class Lister(PodResourcesListerServicer):
    """A FAKE of the kubelet's lister: answers with what it is given, or never."""

    def __init__(self, *pods: api.PodResources) -> None:
        self.pods = pods
        self.silent = False

    async def List(self, request: Any, context: Any) -> api.ListPodResourcesResponse:  # noqa: ARG002, N802 - the protocol's
        if self.silent:
            await asyncio.Event().wait()
        return api.ListPodResourcesResponse(pod_resources=self.pods)


@asynccontextmanager
async def served(folder: Path, lister: Lister) -> AsyncIterator[PodResources]:
    server = grpc.aio.server()
    add_PodResourcesListerServicer_to_server(lister, server)
    server.add_insecure_port(f"unix:{folder}/kubelet.sock")
    await server.start()
    try:
        yield PodResources(folder / "kubelet.sock", timeout_s=5)
    finally:
        await server.stop(0)


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


async def test_a_device_that_is_given_once_for_each_numa_node_counts_once(tmp_path: Path) -> None:
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


async def test_a_kubelet_that_stays_silent_is_an_error(tmp_path: Path) -> None:
    lister = Lister()
    lister.silent = True
    async with served(tmp_path, lister):
        with pytest.raises(KubeletError, match=r"list of pod resources: .*DEADLINE_EXCEEDED"):
            await PodResources(tmp_path / "kubelet.sock", timeout_s=0.1).list()


async def test_a_missing_socket_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(KubeletError, match=rf"{tmp_path}/none\.sock: .*No such file"):
        await PodResources(tmp_path / "none.sock").list()
