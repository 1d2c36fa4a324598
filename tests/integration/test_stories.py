"""The workloads of the ACK documentation, placed on GPUs by real schedulers with our extender."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from gpushare.contract import EVENT_PLACED, EVENT_REFUSED
from testbed import Bed, SchedulerSpec
from testbed.control_plane.scheduler import LEGACY
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from testbed.programs.binaries import release
from testbed.stories import Story, notebooks, pictures, replicas, sample
from testbed.stories.play import perform, pod_events, show
from tests.support.builders.ack_documents import S3_POLICY
from tests.support.fixtures.simulated import clear
from tests.support.history import cards_of

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="session")]


@dataclass(frozen=True)
class Setup:
    """A scheduler, and the extender that it calls."""

    extender: ExtenderSpec
    scheduler: SchedulerSpec


def current() -> Setup:
    extender = ExtenderSpec()
    return Setup(extender, SchedulerSpec(extenders=[component_config(extender.url)]))


def of_the_sources() -> Setup:
    return Setup(ExtenderSpec(port=32766), SchedulerSpec(LEGACY, config=S3_POLICY))


CURRENT = pytest.param(current, id=release())
SETUPS = pytest.mark.parametrize(
    "shared", [CURRENT, pytest.param(of_the_sources, id="1.22-policy")], indirect=True
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def granted(clean_bed: Bed) -> Bed:
    await grant(clean_bed)
    return clean_bed


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared(granted: Bed, request: pytest.FixtureRequest) -> AsyncIterator[tuple[Bed, ExtenderSpec]]:
    """A cluster without nodes for all stories that are played with one scheduler."""
    setup: Setup = request.param()
    await granted.restart_scheduler(setup.scheduler)
    extender = await start_extender(granted, setup.extender)
    yield granted, setup.extender
    await extender.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def bed(shared: tuple[Bed, ExtenderSpec]) -> AsyncIterator[Bed]:
    running, extender = shared
    yield running
    await clear(running, extender)


async def play(story: Story, bed: Bed) -> None:
    await bed.add_nodes(story.nodes)
    for step in story.steps:
        await perform(bed, step)


async def card_of(bed: Bed, name: str) -> tuple[str, dict[int, int]]:
    pod = await bed.api.get(f"/api/v1/namespaces/default/pods/{name}")
    return pod["spec"]["nodeName"], cards_of(pod)


async def completed(bed: Bed, words: str) -> tuple[list[str], str]:
    """The completions of kubectl after these words, and its directive for the shell."""
    *candidates, end = (await show(bed, f"kubectl __complete {words} '' 2>/dev/null")).splitlines()
    return candidates, end


@SETUPS
async def test_s0_three_notebooks_fill_12_of_14_units_and_the_fourth_has_a_reason(bed: Bed) -> None:
    await play(notebooks(), bed)
    text = await show(bed, "kubectl gpushare top node -s")
    assert "cn-zhangjiakou.192.168.3.184  192.168.3.184  12/14" in text
    assert "12/14 (GiB) (85%)" in text
    refused = [m for pod, reason, m in await pod_events(bed) if reason == EVENT_REFUSED]
    assert any("asked 4" in m and "2 of 14 free on GPU 0" in m for m in refused)


@SETUPS
async def test_s2_two_replicas_share_gpu_0(bed: Bed) -> None:
    await play(replicas(), bed)
    (name, *_), end = await completed(bed, "inspect cgpu")
    assert (name, end) == (replicas().nodes[0].name, ":4")
    text = await show(bed, "kubectl inspect cgpu -d")
    assert [line.split() for line in text.splitlines() if line.startswith("app-3g")] == [
        ["app-3g-v1-0", "default", "4"],
        ["app-3g-v1-1", "default", "4"],
    ]
    assert "Allocated/Total GPU Memory In Cluster:  8/15 (53%)" in text


@SETUPS
async def test_s3_binpack_1_sits_on_the_p40_node(bed: Bed) -> None:
    await play(sample(), bed)
    text = await show(bed, "kubectl inspect gpushare -d")
    p40, _, titan = text.partition("10.0.33.21")
    assert "Allocated :" in p40
    assert "1 (1%)" in p40
    assert "Total :                     88" in p40
    assert "0 (0%)" in titan
    assert "Allocated/Total GPU Memory In Cluster:  1/165 (0%)" in text


@SETUPS
async def test_s3_pictures_only_n3_fits_and_binpack_takes_gpu_1(bed: Bed) -> None:
    await play(pictures(), bed)
    assert await card_of(bed, "picture-1") == ("n3", {0: 8138})
    assert await card_of(bed, "picture-2") == ("n4", {1: 8138})


@pytest.mark.parametrize("shared", [CURRENT], indirect=True)
async def test_a_bind_writes_all_annotations_of_the_aliyun_extender_and_one_event(bed: Bed) -> None:
    await play(replicas(), bed)
    pod = await bed.api.get("/api/v1/namespaces/default/pods/app-3g-v1-0")
    written = pod["metadata"]["annotations"]
    assert written["ALIYUN_COM_GPU_MEM_IDX"] == "0"
    assert written["ALIYUN_COM_GPU_MEM_DEV"] == "15"
    assert written["ALIYUN_COM_GPU_MEM_POD"] == "4"
    assert written["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "false"
    assert len(written["ALIYUN_COM_GPU_MEM_ASSUME_TIME"]) == 19
    assert json.loads(written["scheduler.framework.gpushare.allocation"]) == {"0": {"0": 4}}
    placed = [
        m for name, reason, m in await pod_events(bed) if reason == EVENT_PLACED and name == "app-3g-v1-0"
    ]
    assert len(placed) == 1
    assert "4 units on GPU 0" in placed[0]
