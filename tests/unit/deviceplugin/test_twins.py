"""Waiting pods with containers of the same amount: which one matches, and mistakes."""

from dataclasses import replace
from pathlib import Path

from structlog.testing import capture_logs

from gpushare.contract import EVENT_ASSIGNED, EVENT_REFUSED, LABEL_MODE
from gpushare.deviceplugin.core.allocations import Key
from gpushare.deviceplugin.core.interface import AllocateResponse
from gpushare.deviceplugin.core.reconcile import ServedContainer
from gpushare.model.demand import Demand, demand_of
from gpushare.model.local_node import LocalNode
from tests.support.builders.gpu_pods import NODE, PICKS, gpu_pod
from tests.support.builders.scheduling import main, sound
from tests.unit.deviceplugin.fixtures import AgentFixture, allocated, ids, rejected


def pair(first: int, second: int) -> Demand:
    """A pod of two containers."""
    return sound(demand_of([main(first, name="c0"), main(second, name="c1")]))


def unlike(folder: Path) -> AgentFixture:
    """``small`` of 2 on GPU 0 was bound before ``large`` of 2 + 6 on GPU 1."""
    here = AgentFixture(folder, 8, 8)
    here.add_pods(gpu_pod("small", 2, card=0, bound=1), gpu_pod("large", pair(2, 6), card=1, bound=2))
    return here


async def test_of_unequal_pods_the_one_in_the_kubelet_matches(tmp_path: Path) -> None:
    here = unlike(tmp_path)
    here.names = frozenset({"default/large", "default/other"})
    answer = await allocated(here.mem.allocate(ids(1, 0, 1)))
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"
    assert (answer.envs["ALIYUN_COM_GPU_MEM_POD"], answer.envs["ALIYUN_COM_GPU_MEM_CONTAINER"]) == ("8", "2")


async def test_without_a_difference_in_the_kubelet_the_oldest_matches(
    tmp_path: Path,
) -> None:
    for number, names in enumerate((None, frozenset[str](), frozenset({"default/small", "default/large"}))):
        here = unlike(tmp_path / str(number))
        here.names = names
        assert (await allocated(here.mem.allocate(["x", "y"]))).envs["ALIYUN_COM_GPU_MEM_POD"] == "2"


async def test_for_equal_pods_the_kubelet_is_not_asked(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 8, 8)
    here.add_pods(gpu_pod("a", 2, card=0, bound=1), gpu_pod("b", 2, card=1, bound=2))
    here.names = frozenset({"default/b"})
    assert (await allocated(here.mem.allocate(["x", "y"]))).envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"


async def test_a_pod_with_the_response_of_an_unequal_one_gets_one_event(tmp_path: Path) -> None:
    here = unlike(tmp_path)
    await here.mem.allocate(ids(0, 0, 1))
    here.confirm("large", 2, "GPU-0-_-0", "c0")
    with capture_logs() as logs:
        for _ in range(3):
            here.status.publish()
    assert [entry["event"] for entry in logs] == ["pod_corrected", "pod_mistaken"]
    moved, mistaken = here.events
    assert (moved.name, moved.reason, mistaken.name) == ("large", EVENT_ASSIGNED, "large")
    assert mistaken.text.startswith(
        "container c0 was started with 2 aliyun.com/gpu-mem as the total of its pod, which requests 8"
    )
    assert here.metrics.registry.get_sample_value(
        "gpushare_device_plugin_corrected_pods_total", {"cause": "mistaken"}
    )


async def test_the_rest_of_such_a_pod_follows_if_it_fits(tmp_path: Path) -> None:
    here = unlike(tmp_path)
    await here.mem.allocate(ids(0, 0, 1))
    here.confirm("large", 2, "GPU-0-_-0", "c0")
    answer = await allocated(here.mem.allocate([f"x{n}" for n in range(6)]))
    assert (answer.envs["NVIDIA_VISIBLE_DEVICES"], answer.envs["ALIYUN_COM_GPU_MEM_POD"]) == ("GPU-0", "8")


async def test_the_rest_of_such_a_pod_is_rejected_if_it_does_not_fit(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 8, 8)
    here.add_pods(gpu_pod("other", 3, card=0, bound=0))
    await here.mem.allocate(ids(0, 5, 6, 7))
    here.confirm("other", 3, "GPU-0-_-5")
    here.add_pods(gpu_pod("small", 2, card=0, bound=1), gpu_pod("large", pair(2, 6), card=1, bound=2))
    await here.mem.allocate(ids(0, 0, 1))
    here.confirm("large", 2, "GPU-0-_-0", "c0")
    answer = await rejected(here.mem.allocate([f"x{n}" for n in range(6)]))
    assert answer.text.startswith("pod default/large, container c1: its other containers use GPU 0, where ")


async def test_a_pod_that_picks_its_devices_differs_from_its_twin(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 8)
    here.add_pods(gpu_pod("plain", 2, card=0, bound=1), gpu_pod("picks", 2, card=0, bound=2, declares=PICKS))
    here.names = frozenset({"default/picks"})
    assert (await rejected(here.mem.allocate(["x", "y"]))).reason == "own_devices"


async def test_a_pod_that_picks_its_devices_and_got_its_twins_response_gets_an_event(
    tmp_path: Path,
) -> None:
    here = AgentFixture(tmp_path, 8)
    picks = gpu_pod("picks", 2, card=0, bound=2, declares=PICKS)
    here.add_pods(gpu_pod("plain", 2, card=0, bound=1), picks)
    await here.mem.allocate(["x", "y"])
    here.named = (ServedContainer("picks", "main", "x", 2),)
    here.observe()
    with capture_logs() as logs:
        here.status.publish()
        here.status.publish()
    direct = AgentFixture(tmp_path / "direct", 8)
    direct.add_pods(picks)
    refused = await rejected(direct.mem.allocate(["x", "y"]))
    assert here.events == direct.events
    assert here.events[0].reason == EVENT_REFUSED
    reported = [entry for entry in logs if entry["event"] == "allocate_refused"]
    assert [(entry["reason"], entry["text"]) for entry in reported] == [(refused.reason, refused.text)]


async def test_a_pod_that_was_mistaken_for_another_keeps_its_allocation(tmp_path: Path) -> None:
    """The kubelet has lost its checkpoint, and the agent has not seen the other pod yet."""
    here = AgentFixture(tmp_path, 8)
    here.add_pods(gpu_pod("runs", 2, card=0))
    await here.mem.allocate(ids(0, 0, 1))
    here.confirm("runs", 2, "GPU-0-_-0")
    here.named = ()
    await here.mem.allocate(ids(0, 4, 5))
    here.add_pods(gpu_pod("unseen", 2, card=0))
    here.confirm("unseen", 2, "GPU-0-_-4", cards=("GPU-0",))
    assert allocations_of(here) == {("runs", "main"): {"GPU-0": 2}, ("unseen", "main"): {"GPU-0": 2}}
    assert all(each.confirmed for each in here.node_state.allocations.by_container.values())


def allocations_of(here: AgentFixture) -> dict[Key, dict[str, int]]:
    """GPU UUID → units, by container."""
    return {key: dict(each.cards) for key, each in here.node_state.allocations.by_container.items()}


async def forgotten(folder: Path) -> AgentFixture:
    """Twins that fill a GPU each wait for a restart, and the kubelet has lost its checkpoint."""
    here = AgentFixture(folder, 2, 2)
    for card, uid in enumerate("ab"):
        here.add_pods(gpu_pod(uid, 2, card=card, bound=card))
        await here.mem.allocate(ids(card, 0, 1))
        here.confirm(uid, 2, f"GPU-{card}-_-0")
    here.named = ()
    return here


async def gpu_of_the_next_call(here: AgentFixture, *devices: str) -> str:
    response = await allocated(here.mem.allocate(devices))
    return response.envs["NVIDIA_VISIBLE_DEVICES"]


async def test_twins_that_wait_for_a_restart_without_a_checkpoint_are_rejected(tmp_path: Path) -> None:
    here = await forgotten(tmp_path)
    before = allocations_of(here)
    answer = await rejected(here.mem.allocate(["x", "y"]))
    assert answer.reason == "ambiguous"
    assert "default/a, default/b" in answer.text
    assert allocations_of(here) == before


async def test_the_last_of_them_restarts_on_its_gpu(tmp_path: Path) -> None:
    here = await forgotten(tmp_path)
    here.add_pods(replace(gpu_pod("a", 2, card=0), running=frozenset({"main"})))
    assert await gpu_of_the_next_call(here, "x", "y") == "GPU-1"
    here.confirm("b", 2, "x", cards=("GPU-1",))
    assert allocations_of(here) == {("a", "main"): {"GPU-0": 2}, ("b", "main"): {"GPU-1": 2}}


async def mistaken_without_a_checkpoint(folder: Path) -> AgentFixture:
    """The call of ``b`` was matched with ``a`` on GPU 0, and that of ``a`` with ``b`` on GPU 1."""
    here = AgentFixture(folder, 4, 4)
    here.named = None
    here.add_pods(gpu_pod("a", 2, card=0, bound=1), gpu_pod("b", 2, card=1, bound=2))
    for first, last in (("x", "x1"), ("z", "z1")):
        await gpu_of_the_next_call(here, first, last)
    return here


async def test_without_a_checkpoint_a_twin_that_is_gone_frees_no_units(tmp_path: Path) -> None:
    """The kubelet has rejected ``a``, whose allocation is that of ``b``."""
    here = await mistaken_without_a_checkpoint(tmp_path)
    here.delete_pod("a")
    assert await here.release_terminated() == frozenset()
    here.add_pods(gpu_pod("c", 4, card=0))
    await rejected(here.mem.allocate([f"c{n}" for n in range(4)]))


async def test_the_units_of_such_a_twin_are_free_once_the_checkpoint_names_the_other(tmp_path: Path) -> None:
    here = await mistaken_without_a_checkpoint(tmp_path)
    here.delete_pod("a")
    here.named = (ServedContainer("b", "main", "x", 2),)
    await here.release_terminated()
    assert allocations_of(here) == {("b", "main"): {"GPU-0": 2}}


async def test_without_a_checkpoint_a_confirmed_allocation_ends_with_its_pod(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 2)
    here.add_pods(gpu_pod("a", 2, card=0))
    await here.mem.allocate(ids(0, 0, 1))
    here.confirm("a", 2, "GPU-0-_-0")
    here.named = None
    here.delete_pod("a")
    await here.release_terminated()
    assert not here.node_state.allocations.by_container


async def test_without_a_checkpoint_no_allocation_is_repeated_that_a_running_twin_may_have(
    tmp_path: Path,
) -> None:
    """The first call was for ``b``, which runs; this one is for ``a``."""
    here = AgentFixture(tmp_path, 2, 2)
    here.named = None
    here.add_pods(gpu_pod("a", 2, card=0, bound=1), gpu_pod("b", 2, card=1, bound=2))
    await gpu_of_the_next_call(here, "x", "x1")
    here.add_pods(replace(gpu_pod("b", 2, card=1, bound=2), running=frozenset({"main"})))
    assert (await rejected(here.mem.allocate(["z", "z1"]))).reason == "unknown_pod"


async def test_without_a_checkpoint_unequal_pods_are_rejected(tmp_path: Path) -> None:
    here = unlike(tmp_path)
    here.named = None
    assert (await rejected(here.mem.allocate(ids(1, 0, 1)))).reason == "ambiguous"
    here.names = frozenset({"default/large"})
    assert await gpu_of_the_next_call(here, *ids(1, 0, 1)) == "GPU-1"


async def test_without_a_checkpoint_compute_follows_its_memory(tmp_path: Path) -> None:
    here = AgentFixture(tmp_path, 14)
    here.named = None
    here.node_state.apply_node(LocalNode(NODE, labels={LABEL_MODE: "mps"}), None)
    here.add_pods(gpu_pod("a", sound(demand_of([main(2, 30)])), card=0))
    await gpu_of_the_next_call(here, *ids(0, 0, 1))
    assert await here.core.allocate([f"GPU-0-_-{n}" for n in range(30)]) == AllocateResponse()
