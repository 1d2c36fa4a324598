"""Limited containers, from the Allocate call to the end of the pod, on real directories."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpushare.contract import ANN_CLOSED, EVENT_NOT_SERVING, LABEL_CGPU, LABEL_MODE, LABEL_NO_ISOLATION
from gpushare.deviceplugin.core.allocations import Enforcement
from gpushare.deviceplugin.core.interface import AllocateResponse
from gpushare.deviceplugin.core.reconcile import ServedContainer
from gpushare.isolation.layout import DirectoryOwner, link_of
from gpushare.isolation.limits import parse
from gpushare.model.local_node import LocalNode
from tests.support.builders.gpu_pods import NODE, gpu_pod
from tests.support.builders.scheduling import demand
from tests.unit.deviceplugin.fixtures import VERSION, AgentFixture, allocated, ids, install_library, rejected

LABELS = {LABEL_MODE: "cgpu"}


def limited_agent(folder: Path, *units: int, labels: dict[str, str] = LABELS, **more: float) -> AgentFixture:
    """A node with limited containers."""
    here = AgentFixture(folder, *units, **more)  # type: ignore[arg-type]
    here.node_state.apply_node(LocalNode(NODE, labels=labels), None)
    return here


def limit(folder: Path, uid: str) -> str:
    return (link_of(folder / "state", DirectoryOwner(uid, "main")) / "limit").read_text()


def inside(answer: object) -> set[str]:
    """Container paths of the mounts in a response."""
    assert isinstance(answer, AllocateResponse), answer
    return {mount.container_path for mount in answer.mounts}


def source(answer: object, path: str) -> Path:
    """The file of the node behind a mount."""
    assert isinstance(answer, AllocateResponse), answer
    return next(Path(mount.host_path) for mount in answer.mounts if mount.container_path == path)


def files_of(answer: AllocateResponse) -> bool:
    """Whether all mounted files exist."""
    return all(Path(mount.host_path).is_file() for mount in answer.mounts)


async def test_the_enforcement_of_a_container_exists_on_disk_and_in_the_record(tmp_path: Path) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14)
    here.add_pods(gpu_pod("a", 4, card=0))
    answer = await allocated(here.mem.allocate(ids(0, 0, 1, 2, 3)))
    assert files_of(answer)
    (card,) = parse(source(answer, "/.gpushare/limit").read_text())
    assert (card.uuid, card.units, card.card_units) == ("GPU-0", 4, 14)
    (allocation,) = here.record.read()
    assert allocation.enforcement
    assert (allocation.enforcement.library, allocation.enforcement.limit) == (
        VERSION,
        source(answer, "/.gpushare/limit").read_text(),
    )
    assert "CGPU_DISABLE" not in answer.envs


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {LABEL_MODE: "share"},
        {LABEL_MODE: "share", LABEL_CGPU: "true"},
        {**LABELS, LABEL_NO_ISOLATION: "true"},
    ],
)
async def test_containers_without_limits_get_no_mounts(tmp_path: Path, labels: dict[str, str]) -> None:
    here = limited_agent(tmp_path, 14, labels=labels)
    install_library(tmp_path)
    here.add_pods(gpu_pod("a", 1, card=0))
    answer = await here.mem.allocate(ids(0, 0))
    assert inside(answer) == set()
    assert list((tmp_path / "state").iterdir()) == []
    assert isinstance(answer, AllocateResponse)
    assert ("CGPU_DISABLE" in answer.envs) == (LABEL_NO_ISOLATION in labels)


async def test_the_older_ack_label_limits_containers(tmp_path: Path) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14, labels={LABEL_CGPU: "true"})
    here.add_pods(gpu_pod("a", 1, card=0))
    assert "/etc/ld.so.preload" in inside(await here.mem.allocate(ids(0, 0)))


async def test_an_agent_without_the_mounts_rejects_containers_of_a_node_with_limits(tmp_path: Path) -> None:
    here = limited_agent(tmp_path, 14)
    here.add_pods(gpu_pod("a", 1, card=0))
    answer = await rejected(here.mem.allocate(ids(0, 0)))
    assert answer.reason == "no_isolation_mounts"
    for part in (f"{tmp_path}/libraries", f"{tmp_path}/state", NODE, "cgpu.disable.isolation=true"):
        assert part in answer.text
    assert not here.node_state.allocations.by_container


async def test_without_a_library_the_call_is_refused_with_both_ways_out(tmp_path: Path) -> None:
    for name in ("libraries", "state"):
        (tmp_path / name).mkdir()
    here = limited_agent(tmp_path, 14)
    here.add_pods(gpu_pod("a", 1, card=0))
    answer = await rejected(here.mem.allocate(ids(0, 0)))
    assert answer.reason == "no_library"
    for part in (f"{tmp_path}/libraries", NODE, "cgpu-installer", "cgpu.disable.isolation=true"):
        assert part in answer.text
    assert not here.node_state.allocations.by_container
    assert [event.text for event in here.events] == [answer.text]


async def test_a_library_that_is_just_being_installed_is_waited_for(tmp_path: Path) -> None:
    for name in ("libraries", "state"):
        (tmp_path / name).mkdir()
    here = limited_agent(tmp_path, 14, timeout_s=30)
    here.add_pods(gpu_pod("a", 1, card=0))
    call = asyncio.ensure_future(here.mem.allocate(ids(0, 0)))
    await asyncio.sleep(0.05)
    assert not call.done()
    install_library(tmp_path)
    assert "/etc/ld.so.preload" in inside(await call)


async def test_files_that_cannot_be_written_are_named_in_the_rejection(tmp_path: Path) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14)
    (tmp_path / "state").rmdir()
    here.add_pods(gpu_pod("a", 1, card=0))
    answer = await rejected(here.mem.allocate(ids(0, 0)))
    assert f"cannot write {tmp_path}/state/" in answer.text
    assert not here.node_state.allocations.by_container


async def test_a_repeated_allocate_keeps_container_directory_and_region(tmp_path: Path) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14)
    here.add_pods(gpu_pod("a", 1, card=0))
    region = source(await here.mem.allocate(ids(0, 0)), "/.gpushare/region")
    region.write_bytes(b"in use")
    here.confirm("a", 1, "GPU-0-_-0")
    here.named = ()
    here.node_state.apply_contexts({"GPU-0": 300})
    again = await here.mem.allocate(ids(0, 5))
    assert source(again, "/.gpushare/region") == region
    assert region.read_bytes() == b"in use"


async def test_a_measured_context_is_the_estimate_of_later_containers_only(tmp_path: Path) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14)
    here.add_pods(gpu_pod("a", 4, card=0), gpu_pod("b", 4, card=0))
    first = source(await here.mem.allocate(ids(0, 0, 1, 2, 3)), "/.gpushare/limit")
    here.confirm("a", 4, "GPU-0-_-0")
    here.node_state.apply_contexts({"GPU-0": 300})
    second = source(await here.mem.allocate(ids(0, 4, 5, 6, 7)), "/.gpushare/limit")
    assert here.manager.sync()
    assert [parse(each.read_text())[0].context_mib for each in (first, second)] == [121, 300]


async def test_a_failed_repetition_keeps_the_enforcement_of_a_container(tmp_path: Path) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14)
    here.add_pods(gpu_pod("a", 1, card=0))
    region = source(await here.mem.allocate(ids(0, 0)), "/.gpushare/region")
    here.confirm("a", 1, "GPU-0-_-0")
    here.named = ()
    here.observe()
    before = dict(here.node_state.allocations.by_container)
    region.unlink()
    (region.parent / ".region.draft").mkdir()
    await rejected(here.mem.allocate(ids(0, 5)))
    assert here.node_state.allocations.by_container == before


async def test_another_library_or_limit_is_another_container_directory(tmp_path: Path) -> None:
    """The region of one version means nothing to another."""
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14)
    here.add_pods(gpu_pod("a", 1, card=0))
    first = source(await here.mem.allocate(ids(0, 0)), "/.gpushare/region")
    here.confirm("a", 1, "GPU-0-_-0")
    here.named = ()
    install_library(tmp_path, "f" * 16)
    second = source(await here.mem.allocate(ids(0, 5)), "/.gpushare/region")
    assert first != second
    assert first.is_file()
    here.manager.sync()
    assert not first.exists()


async def test_after_a_reboot_container_directories_are_created_from_the_record(tmp_path: Path) -> None:
    install_library(tmp_path)
    before = limited_agent(tmp_path, 14)
    before.add_pods(gpu_pod("a", 4, card=0))
    answer = await before.mem.allocate(ids(0, 0, 1, 2, 3))
    path = source(answer, "/.gpushare/limit")
    text = path.read_text()
    for each in path.parent.iterdir():
        each.unlink()
    path.parent.rmdir()
    after = limited_agent(tmp_path, alive={"a"})  # type: ignore[arg-type]
    assert after.manager.sync()
    assert path.read_text() == text
    assert limit(tmp_path, "a") == text


async def test_the_files_of_a_deleted_pod_are_removed(tmp_path: Path) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14)
    here.add_pods(gpu_pod("a", 1, card=0), gpu_pod("b", 2, card=0))
    await here.mem.allocate(ids(0, 0))
    here.confirm("a", 1, "GPU-0-_-0")
    await here.mem.allocate(ids(0, 1, 2))
    here.confirm("b", 2, "GPU-0-_-1")
    syncing = asyncio.ensure_future(here.manager.run())
    await asyncio.sleep(0)
    assert all(limit(tmp_path, uid) for uid in "ab")
    here.named = here.named[1:] if here.named else ()
    here.delete_pod("a")
    await here.release_terminated()
    async with asyncio.timeout(5):
        while link_of(tmp_path / "state", DirectoryOwner("a", "main")).is_symlink():
            await asyncio.sleep(0.01)
    assert len(list((tmp_path / "state").iterdir())) == 2
    assert limit(tmp_path, "b")
    syncing.cancel()


async def test_swapped_twins_get_links_under_their_own_names(tmp_path: Path) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 8, 8)
    here.add_pods(gpu_pod("a", 2, card=0, bound=1), gpu_pod("b", 2, card=1, bound=2))
    answer = await here.mem.allocate(ids(0, 0, 1))
    here.manager.sync()
    assert parse(limit(tmp_path, "a"))[0].uuid == "GPU-0"
    here.confirm("b", 2, "GPU-0-_-0")
    other = await here.mem.allocate(ids(1, 0, 1))
    here.confirm("a", 2, "GPU-1-_-0")
    here.manager.sync()
    for uid, reported in (("b", answer), ("a", other)):
        assert link_of(tmp_path / "state", DirectoryOwner(uid, "main")).resolve() == (
            source(reported, "/.gpushare/limit").parent
        )


async def test_without_its_record_the_agent_reads_container_directories_from_the_checkpoint(
    tmp_path: Path,
) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14)
    here.add_pods(gpu_pod("a", 4, card=0))
    await here.mem.allocate(ids(0, 0, 1, 2, 3))
    (allocation,) = here.node_state.allocations.by_container.values()
    assert allocation.enforcement
    (tmp_path / "allocations.json").unlink()
    after = limited_agent(tmp_path, 14)
    after.add_pods(gpu_pod("a", 4, card=0))
    after.named = (ServedContainer("a", "main", "GPU-0-_-0", 4, ("GPU-0",), allocation.enforcement.mounts),)
    after.manager.sync()
    (found,) = after.node_state.allocations.by_container.values()
    assert found.enforcement == allocation.enforcement
    assert limit(tmp_path, "a") == allocation.enforcement.limit


async def test_nothing_is_removed_while_the_kubelets_checkpoint_cannot_be_read(tmp_path: Path) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14)
    (tmp_path / "state" / f"{7:016x}").mkdir()
    here.named = None
    here.manager.sync()
    assert len(list((tmp_path / "state").iterdir())) == 1
    here.named = ()
    here.manager.sync()
    assert list((tmp_path / "state").iterdir()) == []


async def test_a_used_library_that_is_gone_from_the_node_is_logged_once(tmp_path: Path) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14)
    here.add_pods(gpu_pod("a", 1, card=0))
    await here.mem.allocate(ids(0, 0))
    (tmp_path / "libraries" / VERSION / "libgpushare.so").unlink()
    with capture_logs() as logs:
        here.manager.sync()
        here.manager.sync()
    assert [(each["event"], each["versions"]) for each in logs] == [("library_gone", [VERSION])]
    assert reduced(here) == 1
    (tmp_path / "libraries" / VERSION / "libgpushare.so").write_text("")
    here.manager.sync()
    assert reduced(here) == 0


async def test_errors_of_container_directories_are_logged_once(tmp_path: Path) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14)
    here.add_pods(gpu_pod("a", 1, card=0))
    await here.mem.allocate(ids(0, 0))
    (key, allocation), *_ = here.node_state.allocations.by_container.items()
    (tmp_path / "state" / f"{9:016x}").write_text("")
    lost = replace(allocation, enforcement=Enforcement(f"{9:016x}", VERSION, "text"))
    here.node_state.allocations = replace(here.node_state.allocations, by_container={key: lost})
    with capture_logs() as logs:
        assert not here.manager.sync()
        assert not here.manager.sync()
    assert [each["event"] for each in logs] == ["limit_files_not_synced"]
    assert reduced(here) == 1


# --- launches -----------------------------------------------------------------------------------


def library(answer: object) -> str:
    return source(answer, "/.gpushare/libgpushare.so").name


@pytest.mark.parametrize(
    ("mode", "core", "paces", "name"),
    [
        ("core_mem", 25, True, "libgpushare-launch.so"),
        ("core_mem", 25, False, "libgpushare.so"),
        ("core_mem", 100, True, "libgpushare.so"),
        ("cgpu", 0, True, "libgpushare.so"),
    ],
)
async def test_a_compute_share_is_enforced_if_the_agent_sets_launch_rates(
    tmp_path: Path,
    mode: str,
    core: int,
    paces: bool,  # noqa: FBT001
    name: str,
) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14, labels={LABEL_MODE: mode}, paces=paces)
    here.add_pods(gpu_pod("a", demand(1, core=core), card=0))
    answer = await here.mem.allocate(ids(0, 0))
    assert library(answer) == name
    assert isinstance(answer, AllocateResponse)
    assert files_of(answer)


async def test_a_repeated_allocate_keeps_the_build(tmp_path: Path) -> None:
    install_library(tmp_path)
    labels = {LABEL_MODE: "core_mem"}
    here = limited_agent(tmp_path, 14, labels=labels, paces=True)
    here.add_pods(gpu_pod("a", demand(1, core=25), card=0))
    first = await here.mem.allocate(ids(0, 0))
    here.confirm("a", 1, "GPU-0-_-0")
    after = limited_agent(tmp_path, 14, labels=labels, paces=False)
    after.add_pods(gpu_pod("a", demand(1, core=25), card=0))
    again = await after.mem.allocate(ids(0, 5))
    assert library(again) == library(first) == "libgpushare-launch.so"
    assert source(again, "/.gpushare/region") == source(first, "/.gpushare/region")


async def test_a_version_without_the_build_for_launches_limits_memory_and_is_logged_once(
    tmp_path: Path,
) -> None:
    install_library(tmp_path, launches=False)
    here = limited_agent(tmp_path, 14, labels={LABEL_MODE: "core_mem"}, paces=True)
    here.add_pods(gpu_pod("a", demand(1, core=25), card=0))
    with capture_logs() as logs:
        assert library(await here.mem.allocate(ids(0, 0))) == "libgpushare.so"
        here.manager.capabilities()
    assert [each["version"] for each in logs if each["event"] == "launches_not_limited"] == [VERSION]


async def test_a_missing_launch_build_is_reported_if_a_container_uses_it(tmp_path: Path) -> None:
    install_library(tmp_path)
    here = limited_agent(tmp_path, 14, labels={LABEL_MODE: "core_mem"}, paces=True)
    here.add_pods(gpu_pod("a", demand(1, core=25), card=0))
    await here.mem.allocate(ids(0, 0))
    here.manager.sync()
    assert reduced(here) == 0
    (tmp_path / "libraries" / VERSION / "libgpushare-launch.so").unlink()
    here.manager.sync()
    assert reduced(here) == 1


def reduced(here: AgentFixture) -> float | None:
    return here.metrics.registry.get_sample_value(
        "gpushare_device_plugin_degraded_mode", {"right": "isolation"}
    )


@pytest.mark.parametrize("mode", ["cgpu", "core_mem", "mps"])
async def test_missing_mounts_are_reported_while_the_node_limits_containers(
    tmp_path: Path, mode: str
) -> None:
    here = limited_agent(tmp_path, 14, labels={LABEL_MODE: mode})
    with capture_logs() as logs:
        for _ in range(2):
            here.manager.check_obstacles()
    assert [each["right"] for each in logs if each["event"] == "degraded_mode"] == ["isolation"]
    assert reduced(here) == 1
    here.node_state.apply_node(LocalNode(NODE, labels={LABEL_MODE: "share"}), None)
    here.manager.check_obstacles()
    assert reduced(here) == 0


def test_a_node_that_limits_nothing_misses_no_mounts(tmp_path: Path) -> None:
    here = limited_agent(tmp_path, 14, labels={LABEL_MODE: "share"})
    with capture_logs() as logs:
        here.manager.check_obstacles()
    assert (logs, reduced(here)) == ([], 0)


def published(here: AgentFixture) -> str | None:
    here.manager.check_obstacles()
    here.status.publish()
    desired = here.writer._desired_node
    assert desired
    return desired.annotations[ANN_CLOSED]


async def test_a_node_that_cannot_limit_containers_is_closed_until_it_can(tmp_path: Path) -> None:
    for name in ("libraries", "state"):
        (tmp_path / name).mkdir()
    here = limited_agent(tmp_path, 14)
    closed = published(here)
    assert closed
    assert f"node {NODE} limits containers to their units" in closed
    assert "install it (DaemonSet cgpu-installer)" in closed
    assert [event.text for event in here.events if event.reason == EVENT_NOT_SERVING] == [closed]
    assert here.metrics.registry.get_sample_value("gpushare_device_plugin_closed") == 1
    # The kubelet still sees the GPUs: otherwise it would reject the pods that run, after its restart.
    assert sum(each.healthy for each in here.mem.devices()) == 14
    install_library(tmp_path)
    assert published(here) is None
    assert here.metrics.registry.get_sample_value("gpushare_device_plugin_closed") == 0


@pytest.mark.parametrize("labels", [{}, {LABEL_MODE: "share"}, {**LABELS, LABEL_NO_ISOLATION: "true"}])
def test_a_node_that_limits_no_containers_needs_no_library(tmp_path: Path, labels: dict[str, str]) -> None:
    assert published(limited_agent(tmp_path, 14, labels=labels)) is None
