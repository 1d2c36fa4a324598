"""Entries of the kubelet's checkpoint that stay after their pod, and such that are lost."""

from dataclasses import replace
from pathlib import Path

from tests.support.builders.gpu_pods import gpu_pod
from tests.unit.deviceplugin.fixtures import AgentFixture, allocated, ids

FIRST = "GPU-0-_-0"


async def served(here: AgentFixture, uid: str, units: int = 2) -> None:
    here.add_pods(gpu_pod(uid, units, card=0))
    await allocated(here.mem.allocate(ids(0, *range(units))))
    here.confirm(uid, units, FIRST)


async def removed(here: AgentFixture, uid: str) -> None:
    here.delete_pod(uid)
    await here.release_terminated()


async def test_the_entry_of_a_removed_pod_does_not_take_the_allocation_of_the_next_one(
    tmp_path: Path,
) -> None:
    """The kubelet gives the IDs again before it writes the checkpoint without the removed pod."""
    here = AgentFixture(tmp_path, 8)
    await served(here, "a")
    await removed(here, "a")
    here.add_pods(gpu_pod("b", 2, card=0))
    await here.mem.allocate(ids(0, 0, 1))
    here.observe()
    assert set(here.node_state.allocations.by_container) == {("b", "main")}
    here.named = ()
    here.confirm("b", 2, FIRST)
    assert [each.confirmed for each in here.node_state.allocations.of_pod("b")] == [True]


async def test_the_entry_is_known_to_be_old_after_a_restart_of_the_agent(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 8)
    await served(here, "a")
    await removed(here, "a")
    await here.record.write(lambda: here.node_state.allocations)
    restarted = AgentFixture(tmp_path, 8)
    restarted.named = here.named
    restarted.add_pods(gpu_pod("b", 2, card=0))
    await restarted.mem.allocate(ids(0, 0, 1))
    restarted.observe()
    assert set(restarted.node_state.allocations.by_container) == {("b", "main")}


async def test_a_static_pod_that_is_put_back_gets_its_devices_again(tmp_path: Path) -> None:
    """It has the same UID. The kubelet may have dropped its devices without writing the checkpoint."""
    here = AgentFixture(tmp_path, 8)
    await served(here, "static")
    await removed(here, "static")
    here.add_pods(gpu_pod("static", 2, card=0))
    await allocated(here.mem.allocate(ids(0, 4, 5)))
    here.observe()
    (allocation,) = here.node_state.allocations.of_pod("static")
    assert allocation.first_device_id == "GPU-0-_-4"


async def test_a_static_pod_that_the_kubelet_still_serves_is_counted_again(tmp_path: Path) -> None:
    """Without another pod in between the kubelet keeps its devices, and makes no call."""
    here = AgentFixture(tmp_path, 8)
    await served(here, "static")
    entry, *_ = here.named or ()
    here.named = (replace(entry, cards=("GPU-0",)),)
    await removed(here, "static")
    here.add_pods(gpu_pod("static", 2, card=0))
    here.observe()
    assert here.node_state.allocations.of_pod("static")


async def test_the_entry_of_a_static_pod_that_is_put_back_is_stale_until_its_call_is_answered(
    tmp_path: Path,
) -> None:
    """Its response in the checkpoint names a GPU, so that the entry alone would be an allocation."""
    here = AgentFixture(tmp_path, 8)
    await served(here, "static")
    entry, *_ = here.named or ()
    here.named = (replace(entry, cards=("GPU-0",)),)
    here.observe()
    await removed(here, "static")
    here.add_pods(gpu_pod("static", 2, card=0))
    here.observe()
    await allocated(here.mem.allocate(ids(0, 4, 5)))
    here.observe()
    (allocation,) = here.node_state.allocations.of_pod("static")
    assert (allocation.first_device_id, allocation.confirmed) == ("GPU-0-_-4", False)


async def test_a_new_entry_of_a_pod_that_is_already_deleted_takes_its_allocation(tmp_path: Path) -> None:
    """The call was for a pod that was deleted before this agent saw it, and was matched with its twin."""
    here = AgentFixture(tmp_path, 8)
    here.add_pods(gpu_pod("twin", 2, card=0))
    await here.mem.allocate(ids(0, 0, 1))
    here.confirm("deleted", 2, FIRST)
    assert set(here.node_state.allocations.by_container) == {("deleted", "main")}


async def test_devices_that_a_kubelet_has_forgotten_are_of_the_container_that_gets_them_next(
    tmp_path: Path,
) -> None:
    """Both allocations would have the same first device ID."""
    here = AgentFixture(tmp_path, 8, 8)
    await served(here, "waits")
    here.named = ()
    here.observe()
    here.add_pods(gpu_pod("new", 2, card=1))
    await here.mem.allocate(ids(0, 0, 1))
    here.confirm("waits", 2, FIRST)
    (allocation,) = here.node_state.allocations.of_pod("waits")
    assert dict(allocation.cards) == {"GPU-1": 2}
    assert not here.node_state.allocations.of_pod("new")


async def test_an_allocation_that_the_kubelet_names_again_is_the_same(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 8)
    await served(here, "a")
    before = here.node_state.allocations
    named, here.named = here.named, ()
    here.observe()
    assert [each.first_device_id for each in here.node_state.allocations.of_pod("a")] == [""]
    here.named = named
    here.observe()
    assert here.node_state.allocations == before


async def test_devices_of_an_answer_that_was_lost_are_not_its_own_when_a_forgotten_container_gets_them(
    tmp_path: Path,
) -> None:
    here = AgentFixture(tmp_path, 8, 8)
    here.add_pods(gpu_pod("failed", 2, card=1))
    await here.mem.allocate(ids(0, 4, 5))
    await served(here, "waits")
    here.add_pods(replace(gpu_pod("failed", 2, card=1), running=frozenset({"main"})))
    here.named = ()
    await allocated(here.mem.allocate(ids(0, 4, 5)))
    here.confirm("waits", 2, "GPU-0-_-4", cards=("GPU-0",))
    (allocation,) = here.node_state.allocations.of_pod("waits")
    assert dict(allocation.cards) == {"GPU-0": 2}
    assert not here.node_state.allocations.of_pod("failed")
