"""``kubectl gpushare fit`` against a fake of the API server."""

import pytest

from gpushare.overview.usage_api import way_to_usage
from tests.support.builders.api_objects import node, pod, share
from tests.unit.cli.fakes import Api, call, documented, refused, shown

pytestmark = pytest.mark.asyncio


def fill(api: Api) -> None:
    api.nodes = [node("n", share(28, 2)), node("plain", {})]
    api.pods = [pod("a", "n", 10, index="0"), pod("done", "n", 14, index="1", phase="Succeeded")]


async def test_the_largest_block_and_how_many_pods_fit(api: Api) -> None:
    fill(api)
    out = await shown(api, "fit", "4")
    first, _, header, row = out.splitlines()
    assert first == "4 pods with 4 units on one GPU fit now. The largest free block is 14 units on one GPU."
    assert header.split() == [
        "GPU",
        "MEMORY",
        "MODE",
        "NODES",
        "OPEN",
        "LARGEST",
        "FREE",
        "PODS",
        "POOL",
        "TAINTS",
    ]
    assert row.split()[-5:] == ["14", "GiB", "4", "-", "-"]


async def test_several_gpus(api: Api) -> None:
    fill(api)
    out = await shown(api, "fit", "4", "--gpus", "2")
    assert out.startswith(
        "1 pod with 4 units on each of 2 GPUs fits now. The largest free block is 4 units on "
    )


async def test_nothing_fits(api: Api) -> None:
    fill(api)
    out = await shown(api, "fit", "20")
    assert out.startswith(
        "No pod with 20 units on one GPU fits now. The largest free block is 14 units on one GPU.\n"
    )
    found = await documented(api, "fit", "20", "-o", "json")
    assert (found["kind"], found["units"], found["fittingPods"], found["largestFreeUnits"]) == (
        "GpuFitList",
        20,
        0,
        14,
    )


async def test_a_cluster_without_shared_gpus(api: Api) -> None:
    assert await call(api, "fit", "4") == (0, "", "No node shares GPUs.\n")


async def test_with_the_rights_of_one_namespace_the_usage_api_answers(api: Api) -> None:
    fill(api)
    api.allow_only("default")
    kind = {
        "model": "T4",
        "unit": "GiB",
        "nodes": 1,
        "openNodes": 1,
        "largestFreeUnits": 14,
        "fittingPods": 4,
    }
    api.usage = {
        "default/gpufits": {"units": 4, "gpus": 1, "largestFreeUnits": 14, "fittingPods": 4, "items": [kind]}
    }
    out = await shown(api, "fit", "4")
    assert out.startswith("4 pods with 4 units on one GPU fit now.")
    assert "T4" in out


async def test_without_rights_and_without_the_usage_api(api: Api) -> None:
    fill(api)
    api.allow_only("default")
    assert (await refused(api, "fit", "4")).splitlines()[1:] == [way_to_usage("default")]


async def test_a_quantity_in_bytes_is_wrong_usage(api: Api) -> None:
    assert "for 4Gi write 4" in await refused(api, "fit", "4Gi", code=2)
