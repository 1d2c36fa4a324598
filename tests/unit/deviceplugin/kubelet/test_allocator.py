import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpushare.contract import EVENT_REFUSED, LABEL_MODE
from gpushare.deviceplugin.core.interface import AllocateResponse, Rejected
from gpushare.deviceplugin.core.shared_gpus import SharedGpus
from gpushare.deviceplugin.node.record import AllocationRecord
from gpushare.model.demand import demand_of
from gpushare.model.local_node import LocalNode
from gpushare.model.options import MemoryUnit
from tests.support.builders.gpu_pods import NODE, PICKS, cards, gpu_pod
from tests.support.builders.scheduling import main, sound
from tests.support.waiting import until
from tests.unit.deviceplugin.fixtures import AgentFixture, allocated, ids, rejected


async def test_a_container_gets_its_gpu(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14, 14)
    here.add_pods(gpu_pod("a", 2, card=1))
    assert (await allocated(here.mem.allocate(ids(1, 0, 1)))).envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"


async def test_the_record_is_on_disk_before_the_response(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14, 14)
    here.add_pods(gpu_pod("a", 2, card=1))
    await here.mem.allocate(ids(1, 0, 1))
    (allocation,) = AllocationRecord(tmp_path, MemoryUnit.GIB).read()
    assert (allocation.key, allocation.cards, allocation.first_device_id) == (
        ("a", "main"),
        (("GPU-1", 2),),
        "GPU-1-_-0",
    )


async def test_a_record_that_cannot_be_written_is_a_rejection(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    here = AgentFixture(tmp_path / "state", 14)
    here.record._path = tmp_path / "file" / "allocations.json"
    here.add_pods(gpu_pod("a", 1, card=0))
    answer = await rejected(here.mem.allocate(ids(0, 0)))
    assert answer.reason == "record"
    assert str(tmp_path / "file") in answer.text
    assert not here.node_state.allocations.by_container


async def test_a_pod_that_is_not_seen_yet_is_waited_for(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    call = asyncio.ensure_future(here.mem.allocate(ids(0, 0)))
    await asyncio.sleep(0)
    assert not call.done()
    here.add_pods(gpu_pod("a", 1, card=0))
    assert isinstance(await call, AllocateResponse)


async def test_a_call_for_an_unknown_pod_ends_the_pause_of_a_failed_watch(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    here.unwatched = [gpu_pod("a", 1, card=0)]
    await allocated(here.mem.allocate(ids(0, 0)))


async def test_a_pod_that_never_appears_is_rejected_at_the_deadline(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    here.add_pods(gpu_pod("a", 3, card=0))
    assert (await rejected(here.mem.allocate(ids(0, 0)))).reason == "unknown_pod"


async def test_a_pod_known_only_to_the_kubelet_gets_a_gpu_too(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    here.kubelet_pods = [gpu_pod("static", 1)]
    await allocated(here.mem.allocate(ids(0, 0)))
    assert ("static", "main") in here.node_state.allocations.by_container


async def leaving(folder: Path, timeout_s: float = 0.3) -> AgentFixture:
    """The pod ``a``, which has a whole GPU, was deleted and still has processes."""
    here = AgentFixture(folder, 2, timeout_s=timeout_s)
    here.add_pods(gpu_pod("a", 2, card=0))
    await here.mem.allocate(ids(0, 0, 1))
    here.confirm("a", 2, "GPU-0-_-0")
    here.alive.add("a")
    here.delete_pod("a")
    return here


async def test_a_gpu_that_a_pod_is_just_leaving_is_waited_for(tmp_path: Path) -> None:
    here = await leaving(tmp_path)
    here.add_pods(gpu_pod("b", 2, card=0))
    call = asyncio.ensure_future(here.mem.allocate(ids(0, 0, 1)))
    await asyncio.sleep(0)
    assert not call.done()
    here.alive.clear()
    assert isinstance(await call, AllocateResponse)
    assert set(here.node_state.allocations.by_container) == {("b", "main")}


async def test_a_pod_that_will_not_leave_keeps_its_gpu(tmp_path: Path) -> None:
    here = await leaving(tmp_path)
    here.add_pods(gpu_pod("b", 2, card=0))
    assert (await rejected(here.mem.allocate(ids(0, 0, 1)))).reason == "no_room"


async def test_all_waits_of_a_call_share_one_deadline(tmp_path: Path) -> None:
    """First for the pod, then for the GPU that another pod is leaving."""
    here = await leaving(tmp_path, timeout_s=2)
    begun = time.monotonic()
    call = asyncio.ensure_future(here.mem.allocate(ids(0, 0, 1)))
    await asyncio.sleep(1.6)
    here.add_pods(gpu_pod("b", 2, card=0))
    assert (await rejected(call)).reason == "no_room"
    # Two deadlines would take 3.6 s.
    assert time.monotonic() - begun < 3.2


async def test_a_slow_kubelet_does_not_extend_the_deadline(
    tmp_path: Path,
) -> None:
    here = AgentFixture(tmp_path, 2)
    here.slow_s = 1000
    async with asyncio.timeout(30):
        assert (await rejected(here.mem.allocate(ids(0, 0)))).reason == "unknown_pod"


async def test_a_pod_that_is_deleted_during_the_wait_gets_nothing(tmp_path: Path) -> None:
    here = await leaving(tmp_path)
    here.add_pods(gpu_pod("b", 2, card=0))
    call = asyncio.ensure_future(here.mem.allocate(ids(0, 0, 1)))
    await asyncio.sleep(0.05)
    here.delete_pod("b")
    here.alive.clear()
    assert (await rejected(call)).reason == "unknown_pod"
    assert here.node_state.allocations.by_container == {}


async def test_a_rejection_is_an_event_of_the_pod(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 2)
    here.add_pods(gpu_pod("a", 3, card=0))
    answer = await rejected(here.mem.allocate(["x", "y", "z"]))
    (event,) = here.events
    assert (event.reason, event.name, event.text) == (EVENT_REFUSED, "a", answer.text)


async def test_a_rejection_can_have_the_form_of_the_aliyun_plugin(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 2, legacy_failure_env=True)
    answer = await allocated(here.mem.allocate(["x", "y", "z"]))
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "no-gpu-has-3GiB-to-run"
    assert answer.result == "unknown_pod"


async def test_nothing_is_served_while_the_node_must_not_be(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    here.add_pods(gpu_pod("a", 1, card=0))
    here.node_state.apply_node(LocalNode(NODE), "label cgpu=false")
    assert here.mem.devices() == []
    answer = await here.mem.allocate(ids(0, 0))
    assert answer == Rejected("not_serving", "label cgpu=false")


async def test_no_pod_is_served_before_the_mode_of_the_node_is_known(tmp_path: Path) -> None:
    """A container without limits on a node that limits containers would use the memory of others."""
    here = AgentFixture(tmp_path, 14, node_read=False)
    here.node_state.offer_without_node()
    here.add_pods(gpu_pod("a", 1, card=0))
    answer = await rejected(here.mem.allocate(ids(0, 0)))
    assert (answer.reason, "node-a" in answer.text) == ("node_unread", True)


async def test_a_pod_is_served_once_the_node_is_read(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14, node_read=False, timeout_s=5)
    here.node_state.offer_without_node()
    here.add_pods(gpu_pod("a", 1, card=0))
    call = asyncio.ensure_future(here.mem.allocate(ids(0, 0)))
    await until(lambda: here.retried)
    here.node_state.apply_node(LocalNode(NODE), None)
    assert isinstance(await call, AllocateResponse)


async def test_a_restarted_agent_knows_its_allocations(tmp_path: Path) -> None:
    before = AgentFixture(tmp_path, 14)
    before.add_pods(gpu_pod("a", 12, card=0))
    await before.mem.allocate(ids(0, *range(12)))
    after = AgentFixture(tmp_path, 14, alive={"a"})
    after.add_pods(gpu_pod("b", 4, card=0))
    assert isinstance(await after.mem.allocate(ids(0, 0, 1, 2, 3)), Rejected)


async def test_a_pod_that_is_gone_everywhere_has_no_allocation(tmp_path: Path) -> None:
    before = AgentFixture(tmp_path, 14)
    before.add_pods(gpu_pod("a", 12, card=0))
    await before.mem.allocate(ids(0, *range(12)))
    after = AgentFixture(tmp_path, 14)
    await after.release_terminated()
    assert after.node_state.allocations.by_container == {}


@pytest.mark.parametrize("core_first", [True, False])
async def test_both_calls_of_a_container_are_for_one_pod(tmp_path: Path, core_first: bool) -> None:  # noqa: FBT001
    here = AgentFixture(tmp_path, 14, 14)
    here.node_state.apply_node(LocalNode(NODE, labels={LABEL_MODE: "mps"}), None)
    here.add_pods(
        gpu_pod("plain", 2, card=0, bound=1),
        gpu_pod("both", sound(demand_of([main(2, 30)])), card=1, bound=2),
    )
    percent = [f"GPU-1-_-{n}" for n in range(30)]
    if core_first:
        assert await here.core.allocate(percent) == AllocateResponse()
        assert (await allocated(here.mem.allocate(["x", "y"]))).envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"
    else:
        await here.mem.allocate(["x", "y"])
        assert await here.core.allocate(percent) == AllocateResponse()


async def test_compute_alone_is_rejected_by_name(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    here.node_state.apply_node(LocalNode(NODE, labels={LABEL_MODE: "core_mem"}), None)
    here.add_pods(gpu_pod("a", demand_of([main(0, 30)])))
    answer = await rejected(here.core.allocate([f"GPU-0-_-{n}" for n in range(30)]))
    assert answer.reason == "core_only"
    assert "pod default/a, container main" in answer.text


def test_compute_is_offered_only_where_the_mode_divides_it(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14, 14)
    assert here.core.devices() == []
    here.node_state.apply_node(LocalNode(NODE, labels={LABEL_MODE: "core_mem"}), None)
    assert len(list(here.core.devices())) == 200
    assert len(list(here.mem.devices())) == 28


async def test_the_ids_of_the_reserved_gpu_are_preferred(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 4, 4)
    here.add_pods(gpu_pod("a", 2, card=1))
    available = [device.id for device in here.mem.devices()]
    assert await here.mem.prefer(available, (), 2) == ["GPU-1-_-0", "GPU-1-_-1"]


async def test_ids_are_preferred_for_a_pod_that_appears_after_the_call(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14, 14)
    asking = asyncio.ensure_future(here.mem.prefer([*ids(0, 0, 1), *ids(1, 0, 1)], (), 2))
    await asyncio.sleep(0)
    here.add_pods(gpu_pod("a", 2, card=1))
    assert await asking == ids(1, 0, 1)


async def test_without_a_matching_pod_any_ids_are_preferred(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14, 14, timeout_s=0.01)
    assert len(await here.mem.prefer([*ids(0, 0, 1), *ids(1, 0, 1)], (), 2)) == 2


async def test_the_list_of_devices_is_sent_again_when_it_changes(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 4)
    here.mem.devices()
    change = asyncio.ensure_future(here.mem.changed())
    here.add_pods(gpu_pod("a", 2, card=0))
    await asyncio.sleep(0)
    assert not change.done()
    here.node_state.apply_gpus(SharedGpus(MemoryUnit.GIB, cards(4, broken=(0,))))
    await asyncio.wait_for(change, 5)
    assert {device.healthy for device in here.mem.devices()} == {False}


async def test_a_rejected_pod_does_not_affect_the_next_one(tmp_path: Path) -> None:
    """The kubelet has failed it long before the API shows that."""
    here = AgentFixture(tmp_path, 14)
    here.add_pods(gpu_pod("bad", 1, card=0, bound=1, declares=PICKS), gpu_pod("good", 1, card=0, bound=2))
    await rejected(here.mem.allocate(ids(0, 0)))
    await allocated(here.mem.allocate(ids(0, 0)))
    assert set(here.node_state.allocations.by_container) == {("good", "main")}


async def test_compute_that_does_not_fit_on_the_gpu_of_the_memory_is_rejected(tmp_path: Path) -> None:
    """Memory came first, and was matched to a twin with less compute."""
    here = AgentFixture(tmp_path, 14, 14)
    here.node_state.apply_node(LocalNode(NODE, labels={LABEL_MODE: "mps"}), None)
    here.add_pods(gpu_pod("big", sound(demand_of([main(1, 90)])), card=0))
    await here.mem.allocate(ids(0, 0))
    await here.core.allocate([f"GPU-0-_-{n}" for n in range(90)])
    here.confirm("big", 1, "GPU-0-_-0")
    small, large = (sound(demand_of([main(2, core)])) for core in (10, 60))
    here.add_pods(gpu_pod("small", small, card=0, bound=1), gpu_pod("large", large, card=1, bound=2))
    await allocated(here.mem.allocate(["x", "y"]))
    assert (await rejected(here.core.allocate([f"GPU-1-_-{n}" for n in range(60)]))).reason == "no_core"


async def test_compute_after_its_memory_does_not_affect_the_next_pod(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14, 14)
    here.node_state.apply_node(LocalNode(NODE, labels={LABEL_MODE: "mps"}), None)
    both = sound(demand_of([main(2, 30)]))
    here.add_pods(gpu_pod("first", both, card=0, bound=1))
    await here.mem.allocate(ids(0, 0, 1))
    assert await here.core.allocate([f"GPU-0-_-{n}" for n in range(30)]) == AllocateResponse()
    here.confirm("first", 2, "GPU-0-_-0")
    here.add_pods(gpu_pod("plain", 2, card=1, bound=2), gpu_pod("both", both, card=0, bound=3))
    assert (await allocated(here.mem.allocate(ids(1, 0, 1)))).envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"


async def test_a_recreated_mirror_does_not_affect_its_static_pod(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    for mirror in ("m1", "m2"):
        found = gpu_pod(mirror, 1)
        here.add_pods(replace(found, pod=replace(found.pod, name="static"), static_uid="s"))
    here.delete_pod("m1")
    assert "s" in here.node_state.allocations.gpu_pods
    here.delete_pod("m2")
    assert "s" not in here.node_state.allocations.gpu_pods


async def test_a_forged_mirror_does_not_replace_the_pod_with_its_uid(tmp_path: Path) -> None:
    """Any user can create a pod with the annotation, on any node; the kubelet removes it a moment later."""
    here = AgentFixture(tmp_path, 14)
    forged = replace(gpu_pod("forged", 1), static_uid="victim")
    here.add_pods(gpu_pod("victim", 8, card=0))
    here.add_pods(forged)
    await allocated(here.mem.allocate(ids(0, *range(8))))
    here.delete_pod("forged")
    assert "victim" in here.node_state.allocations.gpu_pods


async def test_a_mirror_that_was_forged_before_is_replaced_by_the_pod(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    forged = replace(gpu_pod("forged", 1), static_uid="victim")
    here.add_pods(forged, gpu_pod("victim", 8, card=0), forged)
    here.delete_pod("forged")
    await allocated(here.mem.allocate(ids(0, *range(8))))


async def test_a_forged_mirror_of_a_removed_pod_keeps_its_units_reserved(tmp_path: Path) -> None:
    """On the safe side, and until the kubelet has removed the forged pod."""
    here = AgentFixture(tmp_path, 14)
    here.add_pods(replace(gpu_pod("forged", 1), static_uid="victim"), gpu_pod("victim", 8, card=0))
    await here.mem.allocate(ids(0, *range(8)))
    here.confirm("victim", 8, "GPU-0-_-0")
    here.delete_pod("victim")
    assert not here.observe().terminated
    here.delete_pod("forged")
    assert here.observe().terminated == {"victim"}


async def test_a_forged_mirror_does_not_shrink_a_static_pod(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    forged = replace(gpu_pod("forged", 1), static_uid="static")
    here.add_pods(forged, replace(gpu_pod("mirror", 8, card=0), static_uid="static"), forged)
    gpu_pods = here.node_state.allocations.gpu_pods
    assert {uid: each.units for uid, each in gpu_pods.items()} == {"static": 8, "forged": 1}


async def test_a_forged_mirror_does_not_replace_a_pod_that_only_the_kubelet_knows(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    here.node_state.apply_kubelet_pods([gpu_pod("static", 8)])
    here.add_pods(replace(gpu_pod("forged", 9), static_uid="static"))
    gpu_pods = here.node_state.allocations.gpu_pods
    assert {uid: each.units for uid, each in gpu_pods.items()} == {"static": 8, "forged": 9}


async def test_pods_of_the_kubelet_alone_are_dropped_with_its_list(
    tmp_path: Path,
) -> None:
    here = AgentFixture(tmp_path, 14)
    here.node_state.apply_kubelet_pods([gpu_pod("static", 1)])
    here.node_state.apply_kubelet_pods([])
    assert not here.node_state.allocations.gpu_pods


async def test_pods_of_the_kubelet_are_kept_while_its_list_cannot_be_read(tmp_path: Path) -> None:
    """A removed static pod would lose its GPU."""
    here = AgentFixture(tmp_path, 14)
    here.node_state.apply_kubelet_pods([gpu_pod("static", 1)])
    here.kubelet_pods = None
    await rejected(here.mem.allocate(ids(0, 0, 1)))
    assert "static" in here.node_state.allocations.gpu_pods


async def test_a_pod_that_only_the_kubelet_knew_gives_its_gpu_to_the_next(tmp_path: Path) -> None:
    """No watch reports its end."""
    here = AgentFixture(tmp_path, 14)
    here.kubelet_pods = [gpu_pod("static", 12)]
    await allocated(here.mem.allocate(ids(0, *range(12))))
    here.confirm("static", 12, "GPU-0-_-0")
    here.kubelet_pods = []
    here.add_pods(gpu_pod("b", 12, card=0))
    await allocated(here.mem.allocate(ids(0, *range(12))))
    assert set(here.node_state.allocations.by_container) == {("b", "main")}


@pytest.mark.parametrize("turns", range(3))
async def test_a_call_that_is_cancelled_during_a_change_ends(tmp_path: Path, turns: int) -> None:
    """As when the kubelet restarts."""
    here = AgentFixture(tmp_path, 14)
    here.kubelet_pods = None
    call = asyncio.ensure_future(here.mem.allocate(ids(0, 0)))
    await until(lambda: bool(here.node_state._waiters))
    here.add_pods(gpu_pod("a", 1))
    for _ in range(turns):
        await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait({call})
    assert call.cancelled()


async def test_a_cancelled_wait_is_removed(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    await here.mem.allocate(ids(0, 0))
    assert here.node_state._waiters == []


async def test_a_call_that_only_a_rejected_pod_matches_waits_for_the_pod_that_replaced_it(
    tmp_path: Path,
) -> None:
    """The kubelet has given the rejected pod up; the watch still shows it, and not the next one yet."""
    here = AgentFixture(tmp_path, 14)
    here.add_pods(gpu_pod("first", 1, declares=PICKS))
    await rejected(here.mem.allocate(ids(0, 0)))
    call = asyncio.ensure_future(here.mem.allocate(ids(0, 0)))
    await asyncio.sleep(0.05)
    assert not call.done()
    here.add_pods(gpu_pod("second", 1, declares=PICKS))
    assert isinstance(await call, Rejected)
    assert [event.name for event in here.events] == ["first", "second"]


async def test_a_pod_that_was_rejected_in_place_of_its_twin_still_gets_its_gpu(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 2)
    here.add_pods(gpu_pod("a", 2, card=0), gpu_pod("b", 1, card=0), gpu_pod("c", 1, card=0))
    await here.mem.allocate(ids(0, 0, 1))
    await rejected(here.mem.allocate(ids(0, 0)))
    here.delete_pod("a")
    here.delete_pod("c")
    await allocated(here.mem.allocate(ids(0, 0)))
    assert set(here.node_state.allocations.by_container) == {("b", "main")}


async def test_after_five_rejections_of_a_workload_its_container_fails_and_not_its_pod(
    tmp_path: Path,
) -> None:
    here = AgentFixture(tmp_path, 14)
    answers = []
    for number in range(7):
        refused = gpu_pod(f"p{number}", 1, declares=PICKS)
        here.add_pods(replace(refused, pod=replace(refused.pod, workload="web")))
        answers.append(await here.mem.allocate(ids(0, 0)))
        here.delete_pod(f"p{number}")
    assert [isinstance(answer, Rejected) for answer in answers] == 5 * [True] + 2 * [False]
    last = answers[-1]
    assert isinstance(last, AllocateResponse)
    assert (last.devices, last.result) == (("/dev/gpushare-rejected-own_devices",), "own_devices")
    assert last.envs == {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert not here.node_state.allocations.by_container
    texts = [event.text for event in here.events]
    assert ["its container does not start; delete the pod" in text for text in texts] == 5 * [False] + 2 * [
        True
    ]
    assert all("sets NVIDIA_VISIBLE_DEVICES itself" in text for text in texts)


async def test_pods_that_nothing_replaces_are_always_rejected(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    for number in range(7):
        here.add_pods(gpu_pod(f"p{number}", 1, declares=PICKS))
        await rejected(here.mem.allocate(ids(0, 0)))


async def test_calls_for_pods_that_no_source_shows_are_always_rejected(tmp_path: Path) -> None:
    """Admitted, such a pod would hold units that no record has."""
    here = AgentFixture(tmp_path, 14, timeout_s=0)
    assert all([isinstance(await here.mem.allocate(ids(0, 0)), Rejected) for _ in range(8)])
