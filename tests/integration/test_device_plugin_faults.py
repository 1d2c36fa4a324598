"""What the node agent does while the API server, the driver, a card or a pod misbehaves; on real parts."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest
import pytest_asyncio

from gpushare import contract
from gpushare.errors import ApiError
from testbed import TestbedError, until
from testbed.agent import GpuNode
from testbed.api import Object, read_text
from testbed.kubelets import KubeletSpec, needs
from testbed.nvml import card
from tests.support.agents import Link, add_linked_node, linked, prefers, start_kubelet
from tests.support.gpunodes import (
    PODS,
    SHARING,
    GpuBed,
    bound,
    clear,
    container,
    failed,
    gpu_bed,
    metric,
    node_object,
    owner,
    owners,
    pod,
    replicas_run,
    running,
    until_allocatable,
    until_event,
)
from tests.support.recount import live, never_overcommitted, until_agreed

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

OUTAGE_S = 30.0
T4 = 14
UNHEALTHY = "/api/v1/namespaces/kube-system/configmaps/unhealthy-gpu-faulty"

try:
    needs.look()
except TestbedError as reason:
    pytest.skip(str(reason), allow_module_level=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gpus() -> AsyncIterator[GpuBed]:
    async with gpu_bed() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def link(gpus: GpuBed) -> AsyncIterator[Link]:
    async with linked(gpus.bed) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(gpus: GpuBed, link: Link) -> GpuNode:
    """Two T4 of 14 units; a kubelet that tells its status every second."""
    spec = KubeletSpec("faulty", labels=SHARING, config={"nodeStatusUpdateFrequency": "1s"})
    found = await add_linked_node(gpus.bed, link, spec, 2 * [card("T4")], ["--recovery-seconds=1"])
    await until_allocatable(found, 2 * T4)
    return found


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_left(gpus: GpuBed, node: GpuNode) -> AsyncIterator[None]:
    yield
    await clear(gpus.bed, node)


async def gone_from(node: GpuNode, name: str, timeout_s: float = 30) -> None:
    async def gone() -> bool:
        return all(each.pod != f"default/{name}" for each in live(node))

    await until(gone, f"the containers of {name} to be gone", timeout_s)


def cards_of(node: GpuNode) -> dict[str, int]:
    return {each.pod.removeprefix("default/"): each.index for each in live(node)}


# --- the API server is away, and the driver ------------------------------------------------------


async def test_a_pod_that_was_seen_starts_while_api_server_and_driver_do_not_answer(
    gpus: GpuBed, node: GpuNode, link: Link
) -> None:
    bed = gpus.bed
    await bed.create_pods([pod("fills-card-0", container(T4))])
    await running(bed, "fills-card-0")
    await node.kubelet.pause("kubelet")
    await bed.create_pods([pod("seen", container(7))])
    await bound(bed, "seen")
    await until(lambda: prefers(node, 1, 7), "the agent to have seen the pod")
    link.cut()
    await node.kubelet.pause("api")
    node.stub.hang()
    begun = time.monotonic()
    await node.kubelet.resume("kubelet")

    async def started() -> bool:
        return cards_of(node) == {"fills-card-0": 0, "seen": 1}

    await until(started, "the pod to start")
    there = live(node)

    async def noticed() -> bool:
        return await metric(node, "gpushare_device_plugin_cards", state="unhealthy") == 2

    await until(noticed, "the agent to notice that the driver hangs", OUTAGE_S)
    assert await metric(node, "gpushare_device_plugin_nvml_up") == 0
    assert (await bed.api.get(f"{PODS}/seen"))["metadata"]["annotations"][contract.ANN_ASSIGNED] == "false"
    await asyncio.sleep(max(0.0, OUTAGE_S - (time.monotonic() - begun)))
    await node.kubelet.resume("api")
    link.mend()
    await running(bed, "seen")
    await until_agreed(node, gpus.extender)
    await until_unhealthy(gpus, "0,1")
    await until_allocatable(node, 0)
    node.stub.release()
    await until_unhealthy(gpus, "")
    await until_allocatable(node, 2 * T4)
    assert await metric(node, "gpushare_device_plugin_nvml_up") == 1
    assert live(node) == there


async def test_pods_that_the_agent_cannot_see_fail_with_the_reason_and_their_owners_recover(
    gpus: GpuBed, node: GpuNode, link: Link
) -> None:
    bed = gpus.bed
    link.cut()
    begun = time.monotonic()
    await bed.api.create(owners("Deployment"), owner("Deployment", "deployed", 1, container(3)))

    async def placed() -> bool:
        pods = await bed.api.items(PODS, labelSelector="app=deployed")
        return any(each["spec"].get("nodeName") for each in pods)

    await until(placed, "the pod to be bound")
    await bed.api.create(owners("StatefulSet"), owner("StatefulSet", "stateful", 1, container(4)))

    async def refused() -> Object | None:
        pods = await bed.api.items(PODS, labelSelector="app=deployed")
        return next((each for each in pods if each["status"]["phase"] == "Failed"), None)

    found = await until(refused, "the pod to be refused")
    assert found is not None
    assert time.monotonic() - begun < 10
    assert found["status"]["reason"] == "UnexpectedAdmissionError"
    assert "no container on node faulty waits for 3 of aliyun.com/gpu-mem" in found["status"]["message"]
    # The controller of a StatefulSet deletes a failed pod at once: only the event is left of it.
    await until_event(bed, "stateful-0", lambda text: "waits for 4" in text)
    link.mend()
    for app in ("deployed", "stateful"):
        await replicas_run(bed, app, 1)
    await until_agreed(node, gpus.extender)


# --- who is who ---------------------------------------------------------------------------------


async def test_twins_that_the_kubelet_admits_in_the_opposite_order_of_their_binding(
    gpus: GpuBed, node: GpuNode
) -> None:
    """A kubelet that has just started admits pods by age: the younger twin is bound first here."""
    bed = gpus.bed
    await node.kubelet.stop("kubelet")
    await bed.create_pods([pod("older", container(10), schedulingGates=[{"name": "test/later"}])])
    # The time of a pod's creation is told in whole seconds.
    await asyncio.sleep(1.1)
    await bed.create_pods([pod("younger", container(10))])
    claims = {"younger": claim(await bound(bed, "younger"))}
    await bed.api.patch(f"{PODS}/older", {"spec": {"schedulingGates": None}})
    claims["older"] = claim(await bound(bed, "older"))
    assert claims == {"younger": "0", "older": "1"}
    await start_kubelet(node)
    for name in claims:
        await running(bed, name)
    assert cards_of(node) == {"older": 0, "younger": 1}
    await until_agreed(node, gpus.extender)
    for name, index in (("older", 0), ("younger", 1)):
        found = await bed.api.get(f"{PODS}/{name}")
        assert claim(found) == str(index)
        text = f"holds 10 on card {index}; its annotations named card {1 - index}"
        await until_event(bed, name, text.__eq__, contract.EVENT_ASSIGNED)
    word = (await node_object(node))["metadata"]["annotations"][contract.ANN_ASSIGNED_NODE]
    assert len(json.loads(word)) == 2


def claim(found: Object) -> str:
    return str(found["metadata"]["annotations"][contract.ANN_IDX])


async def test_a_replica_of_the_same_name_that_comes_back_fast_gets_a_card_of_its_own(
    gpus: GpuBed, node: GpuNode
) -> None:
    await gpus.bed.api.create(owners("StatefulSet"), owner("StatefulSet", "again", 2, container(T4)))
    await replicas_run(gpus.bed, "again", 2)
    async with never_overcommitted(node, T4):
        for _ in range(4):
            old = await gpus.bed.api.get(f"{PODS}/again-0")
            await gpus.bed.api.delete(f"{PODS}/again-0", gracePeriodSeconds="0")

            async def back(uid: str = old["metadata"]["uid"]) -> bool:
                new = await gpus.bed.api.get(f"{PODS}/again-0")
                return bool(new["metadata"]["uid"] != uid and new["spec"].get("nodeName"))

            await until(back, "the replica to be bound again")
        await replicas_run(gpus.bed, "again", 2)
    await until_agreed(node, gpus.extender)


# --- pods that do not go ------------------------------------------------------------------------


async def two_full_cards(gpus: GpuBed) -> None:
    """``leaves`` has 10 units of card 0 and does not heed SIGTERM, ``stays`` has all of card 1."""
    deaf = "trap '' TERM; while true; do sleep 1; done"
    await gpus.bed.create_pods([pod("leaves", container(10, script=deaf), terminationGracePeriodSeconds=60)])
    await running(gpus.bed, "leaves")
    await gpus.bed.create_pods([pod("stays", container(T4))])
    await running(gpus.bed, "stays")


async def force_off(gpus: GpuBed, name: str) -> None:
    await gpus.bed.kubectl("delete", "pod", name, "--force", "--grace-period=0")


@contextmanager
def frozen(node: GpuNode, name: str) -> Iterator[None]:
    """A pod whose processes no signal ends, as where a driver does not come back."""
    uid = next(each.uid for each in live(node) if each.pod == f"default/{name}")
    group = next(node.kubelet.path("/sys/fs/cgroup/freezer").glob(f"kubepods/**/pod{uid}"))
    (group / "freezer.state").write_text("FROZEN")
    try:
        yield
    finally:
        (group / "freezer.state").write_text("THAWED")


async def test_a_forced_deletion_frees_no_card_while_the_container_still_runs(
    gpus: GpuBed, node: GpuNode
) -> None:
    await two_full_cards(gpus)
    async with never_overcommitted(node, T4):
        with frozen(node, "leaves"):
            await force_off(gpus, "leaves")
            await gpus.bed.create_pods([pod("too-soon", container(T4))])
            found = await failed(gpus.bed, "too-soon")
            assert "default/too-soon" in found["status"]["message"]
            assert "4 of 14 free on card 0" in found["status"]["message"]
            assert "leaves" in cards_of(node)
            assert await metric(node, "gpushare_device_plugin_pods", state="leaving") == 1
        await gone_from(node, "leaves")
        await gpus.bed.create_pods([pod("in-time", container(T4))])
        await running(gpus.bed, "in-time")
    await until_agreed(node, gpus.extender)


async def test_a_card_whose_last_container_is_about_to_end_is_waited_for(gpus: GpuBed, node: GpuNode) -> None:
    await two_full_cards(gpus)
    async with never_overcommitted(node, T4):
        await force_off(gpus, "leaves")
        await gpus.bed.create_pods([pod("waits", container(T4))])
        await running(gpus.bed, "waits")
    await until_agreed(node, gpus.extender)


# --- cards and driver ---------------------------------------------------------------------------


async def filtered(gpus: GpuBed, units: int) -> dict[str, str]:
    """Why the extender would not place a pod of that size, by node."""
    asking = pod("asking", container(units))
    asking["metadata"] |= {"namespace": "default", "uid": "00000000-0000-0000-0000-000000000000"}
    text = json.dumps({"Pod": asking, "NodeNames": ["faulty"]})
    answer = json.loads(await read_text(f"{gpus.extender.url}/filter", post=text))
    return {**(answer.get("FailedNodes") or {}), **(answer.get("FailedAndUnresolvableNodes") or {})}


async def until_unhealthy(gpus: GpuBed, indices: str, timeout_s: float = 60) -> None:
    async def told() -> bool:
        try:
            text = (await gpus.bed.api.get(UNHEALTHY))["data"][contract.UNHEALTHY_KEY]
        except ApiError as error:
            if error.status != 404:
                raise
            text = ""
        return bool(text == indices)

    await until(told, f"the ConfigMap to name {indices or 'no card'}", timeout_s)


def says_xid(number: int) -> Callable[[str], bool]:
    return lambda text: f"XID {number}" in text


async def test_an_xid_closes_its_card_for_what_comes_and_touches_nobody_who_runs(
    gpus: GpuBed, node: GpuNode
) -> None:
    bed = gpus.bed
    await bed.create_pods([pod("on-card-0", container(4))])
    await running(bed, "on-card-0")
    before = live(node)
    assert [each.index for each in before] == [0]
    node.stub.xid(0, 79)
    await until_unhealthy(gpus, "0")
    await until_allocatable(node, T4)
    cards = json.loads((await node_object(node))["metadata"]["annotations"][contract.ANN_CARDS])
    assert [each["healthy"] for each in cards] == [False, True]
    await until_event(bed, "faulty", says_xid(79), contract.EVENT_CARD_UNHEALTHY)
    uuid = node.stub.uuid(0)
    assert await metric(node, "gpushare_device_plugin_xid_errors_total", uuid=uuid, xid="79") == 1
    assert await metric(node, "gpushare_device_plugin_cards", state="unhealthy") == 1
    await bed.create_pods([pod("beside", container(6))])
    await running(bed, "beside")
    assert cards_of(node) == {"on-card-0": 0, "beside": 1}
    assert "at most 8 of 14 free on card 1 (closed: card 0)" in (await filtered(gpus, 10))["faulty"]
    assert [each for each in live(node) if each.pod == "default/on-card-0"] == before
    # Whoever has reset the card restarts the agent to say so.
    await node.agent.restart()
    await until_unhealthy(gpus, "")
    await until_allocatable(node, 2 * T4)
    assert "faulty" not in await filtered(gpus, 10)
    await until_agreed(node, gpus.extender)


async def test_a_card_recovers_from_an_error_that_needs_no_reset(gpus: GpuBed, node: GpuNode) -> None:
    node.stub.xid(1, 94)
    await until_unhealthy(gpus, "1")
    await until_unhealthy(gpus, "")
    await until_allocatable(node, 2 * T4)
    await until_event(gpus.bed, "faulty", says_xid(94), contract.EVENT_CARD_RECOVERED)


# --- what people write --------------------------------------------------------------------------


async def test_pods_with_odd_annotations_get_a_card_that_fits(gpus: GpuBed, node: GpuNode) -> None:
    odd: dict[str, Mapping[str, str]] = {
        "no-number": {contract.ANN_IDX: "banana", contract.ANN_POD: "5"},
        "no-such-card": {contract.ANN_IDX: "7", contract.ANN_POD: "5", contract.ANN_ASSUME_TIME: "1"},
        "no-json": {contract.ANN_IDX: "0", contract.ANN_POD: "5", contract.ANN_ALLOCATION: '{"0": {"x": 5'},
        "no-time": {contract.ANN_IDX: "1", contract.ANN_POD: "5", contract.ANN_ASSUME_TIME: "yesterday"},
    }
    async with never_overcommitted(node, T4):
        for name, annotations in odd.items():
            found = pod(name, container(5), nodeName="faulty")
            found["metadata"]["annotations"] = annotations
            await gpus.bed.create_pods([found])
        for name in odd:
            await running(gpus.bed, name)
    await until_agreed(node, gpus.extender)


async def test_the_agent_over_commits_no_card_whatever_the_annotations_say(
    gpus: GpuBed, node: GpuNode
) -> None:
    await gpus.bed.create_pods([pod("a", container(10)), pod("b", container(10))])
    for name in ("a", "b"):
        await running(gpus.bed, name)
    liar = pod("liar", container(8), nodeName="faulty")
    liar["metadata"]["annotations"] = {contract.ANN_IDX: "0", contract.ANN_POD: "8"}
    await gpus.bed.create_pods([liar])
    found = await failed(gpus.bed, "liar")
    assert "asked 8" in found["status"]["message"]
    await until_agreed(node, gpus.extender)


async def test_a_pod_of_several_equal_containers_has_them_all_on_one_card(
    gpus: GpuBed, node: GpuNode
) -> None:
    trio = pod("trio", *(container(4, f"c{i}") for i in range(3)))
    await gpus.bed.create_pods([pod("small", container(4))])
    await running(gpus.bed, "small")
    await gpus.bed.create_pods([trio])
    await running(gpus.bed, "trio")
    assert sorted((each.container, each.index) for each in live(node) if each.pod == "default/trio") == [
        ("c0", 1),
        ("c1", 1),
        ("c2", 1),
    ]
    await until_agreed(node, gpus.extender)


async def test_a_pod_that_cannot_be_understood_is_refused_with_the_reason(
    gpus: GpuBed, node: GpuNode
) -> None:
    labels = {contract.LABEL_CARDS_PER_POD: "many"}
    await gpus.bed.create_pods([pod("odd", container(4), labels=labels, nodeName=node.name)])
    found = await failed(gpus.bed, "odd")
    assert "'many'" in found["status"]["message"]
    assert "pod default/odd, container main" in found["status"]["message"]
