"""Containers that change the size of their region, on real files."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpushare.contract import EVENT_REGION, LABEL_MODE
from gpushare.deviceplugin.isolation import region_sizes
from gpushare.deviceplugin.isolation.files import EnforcementFiles
from gpushare.deviceplugin.isolation.region_sizes import RegionSizes
from gpushare.isolation.layout import IsolationDirs
from gpushare.isolation.region_layout import SIZE
from gpushare.model.local_node import LocalNode
from tests.support.builders.gpu_pods import NODE, gpu_pod
from tests.support.builders.regions import region_bytes
from tests.unit.deviceplugin.fixtures import AgentFixture, allocated, ids, install_library
from tests.unit.deviceplugin.isolation.test_manager import limited_agent, source

INSIDE = "/.gpushare/region"


def sizes_of(agent: AgentFixture, folder: Path) -> RegionSizes:
    files = EnforcementFiles(IsolationDirs(folder / "libraries", folder / "state"))
    return RegionSizes(
        agent.node_state, agent.manager, files, agent.metrics, record_event=agent.events.append, round_s=0.01
    )


async def region_of(agent: AgentFixture, name: str, first: int) -> Path:
    """The region of a container that gets 4 units from this number on."""
    agent.add_pods(gpu_pod(name, 4, card=0))
    answer = await allocated(agent.mem.allocate(ids(0, *range(first, first + 4))))
    agent.confirm(name, 4, f"GPU-0-_-{first}")
    return source(answer, INSIDE)


@pytest.fixture
def agent(tmp_path: Path) -> AgentFixture:
    install_library(tmp_path)
    return limited_agent(tmp_path, 14)


def count(agent: AgentFixture, change: str) -> float | None:
    name = "gpushare_device_plugin_regions_resized_total"
    return agent.metrics.registry.get_sample_value(name, {"change": change})


def degraded(agent: AgentFixture) -> float | None:
    name = "gpushare_device_plugin_degraded_mode"
    return agent.metrics.registry.get_sample_value(name, {"right": "isolation-filesystem"})


@pytest.mark.parametrize("content", [bytes(SIZE), region_bytes()])
async def test_a_region_that_grew_is_repaired_and_reported_on_the_pod(
    agent: AgentFixture, tmp_path: Path, content: bytes
) -> None:
    sizes = sizes_of(agent, tmp_path)
    grown, other = await region_of(agent, "a", 0), await region_of(agent, "b", 4)
    grown.write_bytes(content + b"x" * 10_000)
    await sizes.round()
    assert grown.read_bytes() == content
    (event,) = agent.events
    assert (event.name, event.reason, event.warning) == ("a", EVENT_REGION, True)
    assert f"has made {INSIDE} {SIZE + 10_000} bytes large" in event.text
    assert count(agent, "grown") == 1
    assert other.stat().st_size == SIZE


async def test_a_container_that_repeats_it_is_counted_but_reported_once(
    agent: AgentFixture, tmp_path: Path
) -> None:
    sizes, region = sizes_of(agent, tmp_path), await region_of(agent, "a", 0)
    for _ in range(3):
        os.truncate(region, 1 << 30)
        await sizes.round()
        assert region.stat().st_size == SIZE
    await sizes.round()
    assert (len(agent.events), count(agent, "grown")) == (1, 3)


async def test_a_region_that_was_cut_stays_and_is_reported_on_the_pod(
    agent: AgentFixture, tmp_path: Path
) -> None:
    """What it counted is lost: with zeros in its place, the container would be charged nothing."""
    sizes, region = sizes_of(agent, tmp_path), await region_of(agent, "a", 0)
    region.write_bytes(region_bytes()[:100])
    await sizes.round()
    await sizes.round()
    assert region.stat().st_size == 100
    (event,) = agent.events
    assert f"has cut {INSIDE} to 100 of {SIZE} bytes" in event.text
    assert count(agent, "cut") == 1


def to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("damage", [Path.unlink, to_pipe])
async def test_a_region_that_is_no_file_is_left_to_others(
    agent: AgentFixture, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    sizes, bad, good = (
        sizes_of(agent, tmp_path),
        await region_of(agent, "a", 0),
        await region_of(agent, "b", 4),
    )
    damage(bad)
    os.truncate(good, SIZE + 1)
    await sizes.round()
    assert good.stat().st_size == SIZE


async def test_regions_are_watched_while_containers_are_limited(agent: AgentFixture, tmp_path: Path) -> None:
    sizes = sizes_of(agent, tmp_path)
    running = asyncio.create_task(sizes.run())
    region = await region_of(agent, "a", 0)
    os.truncate(region, SIZE + 1)
    async with asyncio.timeout(10):
        while region.stat().st_size != SIZE:
            await asyncio.sleep(0.01)
    running.cancel()


async def run_once(sizes: RegionSizes) -> None:
    running = asyncio.create_task(sizes.run())
    await asyncio.sleep(0)
    running.cancel()


async def test_a_folder_of_a_larger_filesystem_is_reported_while_containers_are_limited(
    agent: AgentFixture, tmp_path: Path
) -> None:
    sizes = sizes_of(agent, tmp_path)
    with capture_logs() as logs:
        await run_once(sizes)
        await run_once(sizes)
    assert (*sizes.notices,) == (
        f"{tmp_path}/state is not a separate filesystem: a container can fill {tmp_path} of the node",
    )
    assert [(each["event"], each["right"]) for each in logs] == [("degraded_mode", "isolation-filesystem")]
    assert degraded(agent) == 1
    agent.node_state.apply_node(LocalNode(NODE, labels={LABEL_MODE: "share"}), None)
    await run_once(sizes)
    assert not sizes.notices
    assert degraded(agent) == 0


async def test_a_separate_filesystem_is_not_reported(
    agent: AgentFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region_sizes, "is_separate_filesystem", lambda _: True)
    sizes = sizes_of(agent, tmp_path)
    await run_once(sizes)
    assert (sizes.notices, degraded(agent)) == ((), None)
