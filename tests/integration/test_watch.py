"""How a follower catches up with a real API server: bookmarks at the end of a short watch."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest
import pytest_asyncio

from devkit.waiting import timeout_factor
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.adapters.kube.extender_resources import NODES
from gpushare.adapters.kube.watch import Follower
from gpushare.contract import LABEL_PLACEMENT
from gpushare.errors import ApiError
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.objects import Node
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, Testbed
from testbed.control_plane.nodes import node_object
from tests.support.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

API_NODES = "/api/v1/nodes"
MORE_THAN_ONE_PAGE = 501
DEEPEST = 9995
"""Levels of ``fieldsV1`` in an object with 10,000 levels, the limit of Go's decoder."""
WITHIN_S = 4.0
"""The longest wait for a bookmark of a watch of 3 s, with some tolerance."""


@dataclass
class Heard:
    """A listener that has the current nodes and counts lists of the API."""

    nodes: dict[str, Node] = field(default_factory=dict)
    lists: int = 0

    def changed(self, batch: Iterable[Upserted[Node] | Deleted]) -> None:
        for change in batch:
            if isinstance(change, Upserted):
                self.nodes[change.key] = change.value
            else:
                self.nodes.pop(change.key, None)

    def synced(self, _: str) -> None:
        self.lists += 1

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        raise AssertionError(f"{resource}: {error}, retry in {retry_in_s} s")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    async with Testbed(scheduler=SchedulerSpec(None), kwok=False) as running:
        await running.stop("kube-controller-manager")  # it changes nodes without a kubelet
        nodes = (SimNode(f"n{number}", [SimGpu()]) for number in range(MORE_THAN_ONE_PAGE))
        await running.api.create_many((API_NODES, node_object(each)) for each in nodes)
        yield running


@asynccontextmanager
async def following(bed: Bed) -> AsyncIterator[tuple[Follower[Node], Heard]]:
    async with KubeClient(await load_access(str(bed.kubeconfig))) as client:
        follower = Follower(client, NODES, heard := Heard())
        task = asyncio.create_task(follower.run())
        try:
            await until(lambda: heard.lists == 1)
            yield follower, heard
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_bookmark_shows_soon_that_an_idle_watch_has_missed_nothing(bed: Bed) -> None:
    async with following(bed) as (follower, heard):
        # A change of another resource: the version of the collection grows, and the watch has no event.
        await bed.api.create("/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "x-"}})
        async with asyncio.timeout(WITHIN_S * timeout_factor()):
            await follower.refresh()
        assert (heard.lists, len(heard.nodes)) == (1, MORE_THAN_ONE_PAGE)


async def test_a_refresh_delivers_every_earlier_change(bed: Bed) -> None:
    async with following(bed) as (follower, heard):
        for number in range(20):
            await bed.api.patch(f"{API_NODES}/n0", {"metadata": {"labels": {LABEL_PLACEMENT: str(number)}}})
            async with asyncio.timeout(WITHIN_S * timeout_factor()):
                await follower.refresh()
            assert heard.nodes["n0"].placement == str(number)
        assert heard.lists == 1


async def test_an_object_as_deep_as_the_api_server_accepts_is_followed(bed: Bed) -> None:
    """Every user may nest ``managedFields`` of an own pod so, and the extender reads all pods."""
    node = node_object(SimNode("deep", [SimGpu()]))
    fields = msgspec.Raw(b'{"f:a":' * DEEPEST + b"{}" + b"}" * DEEPEST)
    described = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    node["metadata"]["managedFields"] = [{**described, "fieldsV1": fields}]
    async with KubeClient(await load_access(str(bed.kubeconfig))) as client:
        async with following(bed) as (_, heard):
            await client.request("POST", API_NODES, timeout_s=10, body=node)
            await until(lambda: "deep" in heard.nodes)
        stored = await client.request("GET", f"{API_NODES}/deep", timeout_s=10)
        assert stored.count(b'{"f:a":') == DEEPEST
    async with following(bed) as (_, heard):
        assert "deep" in heard.nodes
