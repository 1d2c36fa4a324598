"""The rounds in which the board reads one namespace."""

import asyncio
import json
from typing import Any

from msgspec import to_builtins

from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.client import KubeClient
from gpushare.board.namespace_watch import WatchedNamespace
from gpushare.model.usage_documents import GpuPodList
from tests.support.builders.usage_documents import a10, fits, gpu_pod
from tests.unit.cli.fakes import Api


async def first_document(api: Api) -> dict[str, Any]:
    async with KubeClient(ApiAccess(host=api.url)) as client:
        watched = WatchedNamespace(client, "default", print)
        (follow,) = watched.jobs()
        following = asyncio.create_task(follow)
        async with asyncio.timeout(30):
            await watched.built.wait()
        following.cancel()
        found: dict[str, Any] = json.loads(watched.document.content)
        return found


async def test_a_pod_that_is_gone_before_it_is_explained_leaves_the_others(api: Api) -> None:
    pods = (gpu_pod("gone", 60, ("Job", "gone")), gpu_pod("train", 60, ("Job", "train")))
    api.usage = {
        "default/gpupods": to_builtins(GpuPodList(items=pods)),
        "default/gpufits": to_builtins(fits(a10())),
        "default/gpupods/train/explanation": {
            "pod": "default/train",
            "state": "waits-for-gpu",
            "summary": "no node has them",
        },
    }
    found = await first_document(api)
    assert found["lost"] is None
    assert {group["pods"][0]["name"]: group["reason"] for group in found["pending"]} == {
        "gone": None,
        "train": "no node has them",
    }
