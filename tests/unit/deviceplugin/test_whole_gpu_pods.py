"""The agent beside whole-GPU pods: allocations, rejections and log entries."""

import asyncio
import json
from pathlib import Path

from gpushare.contract import ANN_CARDS, EVENT_CARD_FREE, EVENT_CARD_IN_USE, EVENT_NOT_SERVING
from gpushare.deviceplugin.core.decision import NO_UNITS
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.local_node import LocalNode, LocalPod
from tests.support.builders.gpu_pods import NODE, gpu_pod
from tests.unit.deviceplugin.fixtures import AgentFixture, allocated, ids, rejected

APP = LocalPod("app-uid", "default", "app")


def node_of(folder: Path, *units: int, alive: tuple[str, ...] = (APP.uid,)) -> AgentFixture:
    """A node with GPU 0 allocated to the pod ``app`` as a whole GPU."""
    here = AgentFixture(folder, *units, alive=alive, timeout_s=0.01)
    here.whole = {APP.uid: frozenset({"GPU-0"})}
    here.node_state.apply_pods([Upserted("app", APP)])
    here.observe()
    return here


def closed(here: AgentFixture) -> list[int]:
    return [card.index for card in here.node_state.allocations.cards if not card.healthy]


def reported(here: AgentFixture) -> list[tuple[str, str]]:
    return [(event.reason, event.text) for event in here.events if event.name == NODE]


async def test_the_rejection_of_a_pod_with_a_full_gpu_names_the_whole_gpu_pod(tmp_path: Path) -> None:
    here = node_of(tmp_path, 14)
    here.add_pods(gpu_pod("late", 4, card=0))
    refused = await rejected(here.mem.allocate(ids(0, 0, 1, 2, 3)))
    assert refused.reason == NO_UNITS
    assert (
        "no GPU is usable (unschedulable: GPU 0 until default/app is gone, which has a whole GPU)"
        in refused.text
    )


async def test_a_pod_gets_another_free_gpu(tmp_path: Path) -> None:
    here = node_of(tmp_path, 14, 14)
    here.add_pods(gpu_pod("late", 4, card=0))
    await allocated(here.mem.allocate(ids(0, 0, 1, 2, 3)))
    assert here.node_state.allocations.by_container["late", "main"].cards == (("GPU-1", 4),)


async def test_a_record_that_is_written_during_the_call_counts(tmp_path: Path) -> None:
    """The kubelet may have allocated the GPU just before NVIDIA's plugin ended."""
    here = AgentFixture(tmp_path, 14, alive=(APP.uid,), timeout_s=0.01)
    here.add_pods(gpu_pod("late", 4, card=0))
    here.whole = {APP.uid: frozenset({"GPU-0"})}
    await rejected(here.mem.allocate(ids(0, 0, 1, 2, 3)))


async def test_a_second_container_of_a_pod_on_a_full_gpu_is_refused(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14, alive=(APP.uid,), timeout_s=0.01)
    here.add_pods(gpu_pod("early", 4, card=0))
    await allocated(here.mem.allocate(ids(0, 0, 1, 2, 3)))
    here.whole = {APP.uid: frozenset({"GPU-0"})}
    here.add_pods(gpu_pod("late", 2, card=0))
    await rejected(here.mem.allocate(ids(0, 4, 5)))
    assert set(here.node_state.allocations.by_pod) == {"early"}


async def test_the_gpu_is_full_until_pod_and_cgroup_are_gone(tmp_path: Path) -> None:
    here = node_of(tmp_path, 14)
    here.node_state.apply_pods([Deleted("app")])
    assert await here.release_terminated() == {APP.uid}
    assert closed(here) == [0]
    here.alive.clear()
    assert await here.release_terminated() == frozenset()
    assert closed(here) == []
    here.observe()
    assert closed(here) == [], "the kubelet's record names pods that are long gone"


async def test_a_forged_mirror_is_not_named_for_the_pod_with_its_uid(tmp_path: Path) -> None:
    here = node_of(tmp_path, 14)
    here.node_state.apply_pods([Upserted("x", LocalPod(APP.uid, "default", "forged", mirror=True))])
    here.add_pods(gpu_pod("a", 4))
    answer = await rejected(here.mem.allocate(ids(0, 0, 1, 2, 3)))
    assert "default/app" in answer.text


async def test_a_deleted_whole_gpu_pod_is_reported_as_leaving(tmp_path: Path) -> None:
    here = node_of(tmp_path, 14)
    news = asyncio.ensure_future(here.node_state.changed())
    await asyncio.sleep(0)
    here.node_state.apply_pods([Deleted("app")])
    await asyncio.wait_for(news, 5)


async def test_a_finished_pod_releases_its_gpu(tmp_path: Path) -> None:
    here = node_of(tmp_path, 14, alive=())
    assert await here.release_terminated() == frozenset()
    assert closed(here) == [0]
    here.node_state.apply_pods([Upserted("app", LocalPod(APP.uid, "default", "app", finished=True))])
    await here.release_terminated()
    assert closed(here) == []


async def test_a_pod_that_was_gone_before_the_agent_started_fills_no_gpu(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    here.whole = {"long-gone": frozenset({"GPU-0"})}
    here.observe()
    await here.release_terminated()
    assert closed(here) == []


async def test_a_kubelet_that_has_lost_its_record_frees_no_gpu(tmp_path: Path) -> None:
    here = node_of(tmp_path, 14)
    here.whole = {}
    here.observe()
    here.named = None
    here.observe()
    assert closed(here) == [0]


async def test_before_all_pods_are_known_a_gpu_that_the_record_names_is_full(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    here.node_state._synced = False
    here.whole = {"unseen": frozenset({"GPU-0"})}
    here.observe()
    await here.release_terminated()
    assert closed(here) == [0]


async def test_the_kubelet_still_counts_all_units_of_a_full_gpu(tmp_path: Path) -> None:
    """It would otherwise reject running pods after a restart."""
    here = node_of(tmp_path, 14, 14)
    assert [device.healthy for device in here.mem.devices()] == 28 * [True]


async def test_pods_of_any_kind_come_by_one_list_and_those_that_share_are_gpu_pods(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    sharing = LocalPod("s", "default", "s", gpu_pod=gpu_pod("s", 4, card=0))
    here.node_state.apply_pods([Upserted("s", sharing), Upserted("app", APP)])
    assert (set(here.node_state.allocations.gpu_pods), here.node_state.uids_by_name) == (
        {"s"},
        {"default/s": "s", "default/app": APP.uid},
    )
    here.node_state.apply_pods([Deleted("s"), Deleted("app")])
    assert (here.node_state.allocations.gpu_pods, here.node_state.uids_by_name) == ({}, {})


async def test_a_gpu_that_is_full_or_free_again_is_logged_once(tmp_path: Path) -> None:
    here = node_of(tmp_path, 14, 14)
    here.status.publish()
    here.status.publish()
    in_use = "GPU 0 takes no pods until default/app is gone, which has a whole GPU"
    assert reported(here) == [(EVENT_CARD_IN_USE, in_use)]
    assert list(here.node_state.notices) == [in_use]
    assert here.metrics.registry.get_sample_value("gpushare_device_plugin_cards", {"state": "whole"}) == 1
    here.node_state.apply_pods([Deleted("app")])
    here.alive.clear()
    await here.release_terminated()
    here.status.publish()
    assert reported(here)[1:] == [(EVENT_CARD_FREE, "GPU 0 is no longer in use as a whole GPU")]
    assert not list(here.node_state.notices)
    assert here.metrics.registry.get_sample_value("gpushare_device_plugin_cards", {"state": "whole"}) == 0


async def test_without_shared_gpus_whole_gpus_are_not_logged(tmp_path: Path) -> None:
    here = node_of(tmp_path, 14)
    here.node_state.apply_node(LocalNode(NODE), "label cgpu=false")
    here.status.publish()
    assert (reported(here), here.node_state.notices) == ([(EVENT_NOT_SERVING, "label cgpu=false")], ())
    here.node_state.apply_node(LocalNode(NODE), None)
    here.status.publish()
    here.node_state.apply_node(LocalNode(NODE), "label cgpu=false")
    here.status.publish()
    reasons = [reason for reason, _ in reported(here)]
    assert reasons == [EVENT_NOT_SERVING, EVENT_CARD_IN_USE, EVENT_NOT_SERVING]


async def test_the_full_gpu_is_in_the_annotation_and_in_the_list_of_unhealthy_gpus(tmp_path: Path) -> None:
    here = node_of(tmp_path, 14, 14)
    here.writer.observe_node(LocalNode(NODE))
    here.status.publish()
    publishing = asyncio.ensure_future(here.writer.run())
    while ANN_CARDS not in here.api.node.annotations:
        await asyncio.sleep(0)
    publishing.cancel()
    published = json.loads(here.api.node.annotations[ANN_CARDS])
    assert [(each["healthy"], each["whole_gpu_pods"]) for each in published] == [
        (False, ["default/app"]),
        (True, []),
    ]
    assert here.api.unhealthy == "0"
