"""Containers of nodes of mode mps, from the Allocate call to the response."""

import asyncio
from pathlib import Path

import pytest

from gpushare.contract import LABEL_CARDS_PER_POD, LABEL_MODE, LABEL_NO_ISOLATION, SHM
from gpushare.deviceplugin.core.allocations import Allocation
from gpushare.deviceplugin.core.interface import AllocateResponse, Mount, Rejected
from gpushare.deviceplugin.core.limits import MpsShare, envs_of, mps_share_of
from gpushare.isolation.limits import parse
from gpushare.model.demand import Demand, demand_of
from gpushare.model.local_node import LocalNode
from gpushare.mps.layout import ready_lock_of
from gpushare.mps.ready_lock import ReadyLock
from tests.support.builders.gpu_pods import NODE, allocations, gpu_pod
from tests.support.builders.scheduling import demand, main, sound
from tests.unit.deviceplugin.fixtures import AgentFixture, allocated, ids, install_library, rejected

LABELS = {LABEL_MODE: "mps"}


class MpsAgent(AgentFixture):
    """A node of mode mps with the library, and a control daemon for GPU 0."""

    def __init__(self, folder: Path, *units: int, labels: dict[str, str] = LABELS, **more: float) -> None:
        install_library(folder)
        lock = ready_lock_of(folder / "mps", "GPU-0")
        lock.parent.mkdir(parents=True)
        self.lock = ReadyLock(lock)
        self.lock.acquire()
        super().__init__(folder, *(units or (14,)), **more)  # type: ignore[arg-type]
        self.node_state.apply_node(LocalNode(NODE, labels=labels), None)


def mps_of(answer: AllocateResponse | Rejected) -> tuple[dict[str, str], dict[str, Mount]]:
    """The MPS part of a response: environment, and mounts by container path."""
    assert isinstance(answer, AllocateResponse), answer
    envs = {name: value for name, value in answer.envs.items() if name.startswith("CUDA_MPS_")}
    mounts = {each.container_path: each for each in answer.mounts}
    return envs, {path: mounts[path] for path in ("/.gpushare/mps", SHM) if path in mounts}


async def test_a_container_gets_the_pipes_of_its_gpu_and_limits_of_its_own(tmp_path: Path) -> None:
    here = MpsAgent(tmp_path)
    here.add_pods(gpu_pod("a", demand(4, core=25), card=0))
    await here.core.allocate([f"core-{n}" for n in range(25)])
    envs, mounts = mps_of(await here.mem.allocate(ids(0, 0, 1, 2, 3)))
    assert envs == {
        "CUDA_MPS_PIPE_DIRECTORY": "/.gpushare/mps",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={14 * 1024 * 4 // 14}M",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
    }
    assert mounts["/.gpushare/mps"].host_path == str(tmp_path / "mps" / "GPU-0" / "pipe")
    assert mounts[SHM].host_path == str(tmp_path / "shm")
    assert not any(each.read_only for each in mounts.values())


async def test_the_library_limits_memory_and_mps_limits_compute(
    tmp_path: Path,
) -> None:
    here = MpsAgent(tmp_path, paces=True)
    here.add_pods(gpu_pod("a", demand(4, core=25), card=0))
    await here.core.allocate([f"core-{n}" for n in range(25)])
    answer = await allocated(here.mem.allocate(ids(0, 0, 1, 2, 3)))
    hosts = {each.container_path: Path(each.host_path) for each in answer.mounts}
    assert hosts["/.gpushare/libgpushare.so"].name == "libgpushare.so"
    (limit,) = parse(hosts["/.gpushare/limit"].read_text())
    assert (limit.units, limit.core_percent) == (4, 0)
    assert answer.envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"0={limit.limit_mib}M"


async def test_while_the_control_daemon_is_down_the_rejection_names_both_remedies(tmp_path: Path) -> None:
    here = MpsAgent(tmp_path)
    here.lock.release()
    here.add_pods(gpu_pod("a", 4, card=0))
    answer = await rejected(here.mem.allocate(ids(0, 0, 1, 2, 3)))
    assert answer.reason == "no_mps"
    for part in ("container main", NODE, "GPU GPU-0", "DaemonSet gpushare-mps", LABEL_MODE):
        assert part in answer.text
    assert not here.node_state.allocations.by_container
    assert [event.text for event in here.events] == [answer.text]


async def test_a_daemon_that_is_just_being_started_is_waited_for(tmp_path: Path) -> None:
    here = MpsAgent(tmp_path, timeout_s=30)
    here.lock.release()
    here.add_pods(gpu_pod("a", 4, card=0))
    call = asyncio.ensure_future(here.mem.allocate(ids(0, 0, 1, 2, 3)))
    await asyncio.sleep(0.05)
    assert not call.done()
    here.lock.acquire()
    assert isinstance(await call, AllocateResponse)


async def test_another_gpus_daemon_does_not_help(tmp_path: Path) -> None:
    here = MpsAgent(tmp_path, 14, 14)
    here.add_pods(gpu_pod("a", 4, card=1))
    answer = await rejected(here.mem.allocate(ids(1, 0, 1, 2, 3)))
    assert "GPU GPU-1" in answer.text


async def test_a_pod_of_several_gpus_is_refused_by_name(tmp_path: Path) -> None:
    here = MpsAgent(tmp_path, 14, 14)
    here.add_pods(gpu_pod("a", demand(4, cards=2), card=(0, 1)))
    answer = await rejected(here.mem.allocate(ids(0, 0, 1, 2, 3)))
    assert "one GPU to a pod, not 2" in answer.text
    assert LABEL_CARDS_PER_POD in answer.text


async def test_a_pod_that_had_several_gpus_before_its_node_was_of_mode_mps_is_refused_too(
    tmp_path: Path,
) -> None:
    here = MpsAgent(tmp_path, 14, 14, labels={LABEL_MODE: "cgpu"})
    here.add_pods(gpu_pod("a", demand(4, cards=2), card=(0, 1)))
    await allocated(here.mem.allocate(ids(0, 0, 1, 2, 3)))
    here.node_state.apply_node(LocalNode(NODE, labels=LABELS), None)
    again = await rejected(here.mem.allocate(ids(0, 0, 1, 2, 3)))
    assert again.reason == "mps_cards"
    assert LABEL_CARDS_PER_POD in again.text


async def test_without_the_mps_mount_containers_do_not_use_mps(tmp_path: Path) -> None:
    install_library(tmp_path)
    here = AgentFixture(tmp_path, 14)
    here.node_state.apply_node(LocalNode(NODE, labels=LABELS), None)
    here.add_pods(gpu_pod("a", 4, card=0))
    assert mps_of(await here.mem.allocate(ids(0, 0, 1, 2, 3))) == ({}, {})


@pytest.mark.parametrize("mode", ["share", "cgpu", "core_mem"])
async def test_other_modes_do_not_use_mps(tmp_path: Path, mode: str) -> None:
    here = MpsAgent(tmp_path, labels={LABEL_MODE: mode})
    here.add_pods(gpu_pod("a", demand(4, core=100 if mode == "core_mem" else 0), card=0))
    assert mps_of(await here.mem.allocate(ids(0, 0, 1, 2, 3))) == ({}, {})


async def test_without_isolation_mps_serves_and_limits_nothing(tmp_path: Path) -> None:
    here = MpsAgent(tmp_path, labels={**LABELS, LABEL_NO_ISOLATION: "true"})
    here.add_pods(gpu_pod("a", demand(4, core=25), card=0))
    await here.core.allocate([f"core-{n}" for n in range(25)])
    envs, mounts = mps_of(await here.mem.allocate(ids(0, 0, 1, 2, 3)))
    assert (set(envs), len(mounts)) == ({"CUDA_MPS_PIPE_DIRECTORY"}, 2)


def share_of(requested: Demand, name: str = "main") -> MpsShare:
    units = next(each.mem for each in requested.containers if each.name == name)
    allocation = Allocation("a", name, "ns/a", (("GPU-0", units),), "GPU-0-_-0")
    return mps_share_of(allocations(14), allocation, requested)


@pytest.mark.parametrize(("core", "percent"), [(0, None), (5, 5), (95, 95), (100, None)])
def test_a_request_of_no_compute_or_all_of_it_is_not_limited(core: int, percent: int | None) -> None:
    assert share_of(sound(demand_of([main(4, core)]))).percent == percent


def test_each_container_has_its_requested_compute_share() -> None:
    requested = sound(demand_of([main(4, 25), main(2, 50, name="other")]))
    assert [share_of(requested, name).percent for name in ("main", "other")] == [25, 50]


def test_variables_without_a_limit_are_not_set() -> None:
    assert envs_of(MpsShare("GPU-0", None, None)) == {"CUDA_MPS_PIPE_DIRECTORY": "/.gpushare/mps"}


def test_gpus_without_a_ready_control_daemon_are_closed_for_the_scheduler_only(tmp_path: Path) -> None:
    here = MpsAgent(tmp_path, 14, 14)
    here.manager.check_obstacles()
    advertised = here.node_state.advertised
    assert advertised
    closed = [(card.healthy, card.closed, card.faulty) for card in advertised.cards]
    assert closed == [(True, "", False), (False, "until its MPS control daemon is ready", False)]
    assert here.node_state.closed_reason is None
    assert sum(each.healthy for each in here.mem.devices()) == 28
    here.node_state.apply_node(LocalNode(NODE, labels={LABEL_MODE: "share"}), None)
    here.manager.check_obstacles()
    assert here.node_state.advertised == here.node_state.shared_gpus
