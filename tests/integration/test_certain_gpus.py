"""Pods that say which GPUs they want, beside a real kube-scheduler: the GPU of the bind, and the events."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Final

import pytest
import pytest_asyncio

from gpushare.contract import (
    ANN_CARDS,
    ANN_IDX,
    ANN_OTHER_GPU,
    ANN_PLACEMENT,
    ANN_SAME_GPU,
    ANN_USE_MODELS,
    ANN_USE_UUIDS,
    EXTENDER_NAME,
    LABEL_CARDS_PER_POD,
)
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, Testbed, gpu_pod, until
from testbed.daemons.extender import component_config, grant, start_extender
from tests.support.fixtures.extenders import replica, until_leads

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

PODS: Final = "/api/v1/namespaces/default/pods"
EXTENDER: Final = replica(lease=EXTENDER_NAME)
MIXED: Final = SimNode(
    "mixed",
    [
        SimGpu(uuid="GPU-a"),
        SimGpu(model="NVIDIA A10", uuid="GPU-b", mib=23028, units=22),
        SimGpu(uuid="GPU-c"),
    ],
)
LINKED: Final = [
    {"index": index, "units": 14, "uuid": f"GPU-{index}", "links": links}
    for index, links in enumerate(("-vss", "v-ss", "ss-v", "ssv-"))
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    scheduler = SchedulerSpec(extenders=[component_config(EXTENDER.url)])
    async with Testbed(scheduler=scheduler) as found:
        await grant(found)
        await start_extender(found, EXTENDER)
        await until_leads(EXTENDER)
        links = {ANN_CARDS: json.dumps(LINKED)}
        linked = SimNode("linked", [SimGpu()] * len(LINKED), annotate_cards=False, annotations=links)
        await found.add_nodes([MIXED, linked])
        yield found


async def bound(
    bed: Bed,
    name: str,
    units: int = 2,
    annotations: Mapping[str, str] | None = None,
    *,
    node: str = "mixed",
    labels: Mapping[str, str] | None = None,
) -> str:
    """Create a pod; the index of its GPU."""
    await create(bed, name, units, annotations, node=node, labels=labels)
    return await index_of(bed, name)


async def index_of(bed: Bed, name: str) -> str:
    """The index of the GPU, or the lowest of several, that the bind has written."""
    found: dict[str, str] = {}

    async def placed() -> bool:
        pod = await bed.api.get(f"{PODS}/{name}")
        found.update(pod["metadata"].get("annotations", {}))
        return "nodeName" in pod["spec"]

    await until(placed, f"a node of {name}", 60)
    return found[ANN_IDX]


async def create(
    bed: Bed,
    name: str,
    units: int,
    annotations: Mapping[str, str] | None,
    *,
    node: str = "mixed",
    labels: Mapping[str, str] | None = None,
) -> None:
    selector = {"kubernetes.io/hostname": node}
    pod = gpu_pod(name, units, annotations=annotations, labels=labels, nodeSelector=selector)
    await bed.create_pods([pod])


async def refusal(bed: Bed, name: str, annotations: Mapping[str, str]) -> str:
    """Create a pod that fits nowhere; the message of the scheduler."""
    await create(bed, name, 2, annotations)
    messages: list[str] = []

    async def refused() -> bool:
        conditions = (await bed.api.get(f"{PODS}/{name}")).get("status", {}).get("conditions", ())
        messages.extend(each["message"] for each in conditions if each.get("reason") == "Unschedulable")
        return bool(messages)

    await until(refused, f"the refusal of {name}", 60)
    return messages[0]


async def test_models_and_uuids(bed: Bed) -> None:
    assert await bound(bed, "a10", annotations={ANN_USE_MODELS: "A10"}) == "1"
    assert await bound(bed, "third", annotations={ANN_USE_UUIDS: "GPU-c"}) == "2"


async def test_replicas_keep_apart_and_a_companion_joins(bed: Bed) -> None:
    apart = {ANN_OTHER_GPU: "app=web"}
    web = [await bound(bed, f"web-{at}", annotations=apart, labels={"app": "web"}) for at in range(3)]
    assert sorted(web) == ["0", "1", "2"]
    friend = await bound(bed, "friend", annotations={ANN_SAME_GPU: "web-2"})
    assert friend == web[2]
    message = await refusal(bed, "web-3", apart)
    assert "annotation gpushare.io/other-gpu-than=app=web" in message


async def test_a_pod_that_follows_another_one_waits_for_it(bed: Bed) -> None:
    message = await refusal(bed, "follower", {ANN_SAME_GPU: "app=leader"})
    assert "annotation gpushare.io/same-gpu-as=app=leader: no such pod is on the node" in message
    only = {ANN_USE_UUIDS: "GPU-b"}
    leader = await bound(bed, "leader", annotations=only, labels={"app": "leader"})
    assert await index_of(bed, "follower") == leader == "1"


async def test_what_no_node_has_is_named_in_the_event(bed: Bed) -> None:
    assert "use-gpu-models=H100: no GPU of the cluster is one; there are NVIDIA A10, Tesla T4" in (
        await refusal(bed, "h100", {ANN_USE_MODELS: "H100"})
    )
    assert "use-gpu-uuids=GPU-x: no GPU of the cluster has it; there are GPU-" in (
        await refusal(bed, "lost", {ANN_USE_UUIDS: "GPU-x"})
    )
    assert "annotation gpushare.io/placement='random' is not one of binpack, " in (
        await refusal(bed, "policy", {ANN_PLACEMENT: "random"})
    )
    assert "same-gpu-as=itself is the pod itself" in (await refusal(bed, "itself", {ANN_SAME_GPU: "itself"}))


async def test_topology_takes_linked_gpus(bed: Bed) -> None:
    """GPU 0 is too full; of the others, 2 and 3 are linked, and binpack would take 1 and 2."""
    await bound(bed, "filler", 8, node="linked")
    two = {LABEL_CARDS_PER_POD: "2"}
    assert await bound(bed, "t", 20, {ANN_PLACEMENT: "topology"}, node="linked", labels=two) == "2"
