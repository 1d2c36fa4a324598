"""What the agent sees of the containers on a node's card: real kubelet, containerd, agent and library.

The card is a stub of NVML and of the CUDA driver. The stubs do not know of each other: how long the card
worked for each container by the driver's own counters, and what processes have, is put into NVML by the test.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpushare import contract
from gpushare.isolation import layout, region
from gpushare.isolation.install import install
from gpushare.isolation.layout import Owner
from testbed import Bed, TestbedError, until
from testbed.agent import GpuNode, add_card_node, start_agent
from testbed.api import Object
from testbed.cuda import CudaCard, CudaStub
from testbed.kubelets import KubeletSpec, needs
from testbed.nvml import Process, card, cdi
from tests.support import cuda_image
from tests.support.gpunodes import (
    GpuBed,
    clear,
    container,
    events_of,
    gpu_bed,
    metric,
    pod,
    running,
    until_event,
)
from tests.support.installer import packaged
from tests.support.isolation import MIB, build, needs_compiler
from tests.support.recount import pid_of

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module"), needs_compiler]

try:
    FOUND = needs.look()
except TestbedError as reason:
    pytest.skip(str(reason), allow_module_level=True)

ERA = 418
CONTEXT_MIB = 300
IMAGE = "docker.io/testbed/cuda:1"
WINDOW_S = 10.0
NOT_SUPPORTED = 3
AGE = "gpushare_device_plugin_pacing_sample_age_seconds"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gpus() -> AsyncIterator[GpuBed]:
    async with gpu_bed() as found:
        yield found


@pytest.fixture(scope="module")
def bed(gpus: GpuBed) -> Bed:
    return gpus.bed


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    build(folder, Path(contract.ISOLATION_INSIDE))
    return packaged(folder)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image")
    cuda_image.save(folder / "cuda.tar", IMAGE, cuda_image.programs(folder), FOUND.busybox)
    return folder / "cuda.tar"


class Node:
    """A node of mode core_mem, and the driver of its card."""

    def __init__(self, gpu: GpuNode, cuda: CudaStub) -> None:
        self.gpu, self.cuda = gpu, cuda
        self.pids: list[int] = []
        self._history = deque([(time.monotonic(), cuda.worked_ns(0))], maxlen=1000)

    def parts(self, window_s: float) -> list[float]:
        """Percent of the card's time that each container has had lately, in the order of their start."""
        now, last = self._history[-1]
        then, first = next(each for each in self._history if now - each[0] <= window_s)
        elapsed_ns = max(1.0, (now - then) * 1e9)
        return [100 * (new - old) / elapsed_ns for new, old in zip_longest(last, first, fillvalue=0)]

    async def measure(self) -> None:
        """Have NVML tell what the driver of CUDA knows, until cancelled."""
        while True:
            self._history.append((time.monotonic(), self.cuda.worked_ns(0)))
            told = [
                Process(pid, CONTEXT_MIB, sm=min(100, round(part)))
                for pid, part in zip(self.pids, self.parts(1.0), strict=True)
            ]
            self.gpu.stub.processes(0, told)
            await asyncio.sleep(0.2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(bed: Bed, package: Path, archive: Path) -> AsyncIterator[Node]:
    spec = KubeletSpec("v100", labels={contract.LABEL_MODE: "core_mem"}, runtime="nvidia")
    found = await add_card_node(bed, spec, [card("V100")], era=ERA)
    cuda = CudaStub(bed.folder / "cuda", era=ERA, cards=[CudaCard(found.stub.uuid(0), 16130, CONTEXT_MIB)])
    found.kubelet.path(cdi.FILE).write_text(cuda_image.cdi_text(found.stub, cuda))
    await found.kubelet.load_images(archive)
    found.kubelet.path(contract.ISOLATION_STATE).mkdir()
    install(package, found.kubelet.path(contract.ISOLATION_LIBRARIES))
    # The node is a PID namespace of its own.
    gpu = await start_agent(found, ["--proc-root=/proc"])
    yield Node(gpu, cuda)
    await clear(bed, gpu)


async def start(bed: Bed, node: Node, name: str, core: int) -> Object:
    """A container that launches kernels of 2 ms for ever, as its first process."""
    main = container(4, core=core, image=IMAGE, script="exec launch_kernels 2000000")
    await bed.create_pods([pod(name, main)])
    found = await running(bed, name, 60)

    async def launches() -> bool:
        return len(node.cuda.worked_ns(0)) > len(node.pids)

    await until(launches, f"{name} to launch kernels")
    node.pids.append(pid_of(node.gpu, name))
    return found


def region_file(node: Node, found: Object) -> Path:
    owner = Owner(found["metadata"]["uid"], found["spec"]["containers"][0]["name"])
    return layout.folder_of(node.gpu.kubelet.path(contract.ISOLATION_STATE), owner) / layout.REGION


def seen(node: Node, found: Object) -> region.Region:
    """What the container's region says."""
    read = region.read(region_file(node, found).read_bytes)
    assert read is not None
    return read


async def test_two_containers_have_their_parts_of_a_card_and_keep_them_without_samples(
    bed: Bed, node: Node
) -> None:
    small = await start(bed, node, "small", 25)
    large = await start(bed, node, "large", 75)
    for name in ("small", "large"):
        mounts = await bed.kubectl("exec", name, "--", "sh", "-c", "cat /proc/self/mountinfo")
        assert layout.LAUNCH_LIBRARY in mounts
    measuring = asyncio.create_task(node.measure())
    try:
        await until_parts(node, 25, 75)
        uses = [seen(node, each).cards[0] for each in (small, large)]
        assert all(use.rate > 0 for use in uses)
        assert await metric(node.gpu, AGE) < 10
        await until_measured(node, small)

        node.gpu.stub.fail("nvmlDeviceGetProcessUtilization", NOT_SUPPORTED)

        async def old() -> bool:
            return await metric(node.gpu, AGE) > WINDOW_S

        await until(old, "the age of the sample to be told")
        await until_parts(node, 25, 75)
    finally:
        node.gpu.stub.heal()
        measuring.cancel()


async def until_parts(node: Node, *percents: int) -> None:
    """Wait until the containers have these parts of the card's time, within 5 points."""
    parts: list[Any] = []

    async def right() -> bool:
        parts[:] = node.parts(WINDOW_S)
        return all(abs(part - percent) <= 5 for part, percent in zip(parts, percents, strict=True))

    with suppress(TestbedError):
        await until(right, "the parts", 60, 0.5)
    assert parts == [pytest.approx(percent, abs=5) for percent in percents]


async def until_measured(node: Node, found: Object) -> None:
    """Wait until the agent has written what the container's context takes."""
    (process,) = seen(node, found).processes
    sizes, number = region.context_writes(process, [CONTEXT_MIB * MIB])
    expected = number.content + sizes.content[len(number.content) :]

    async def written() -> bool:
        return region_file(node, found).read_bytes()[sizes.at :].startswith(expected)

    await until(written, "the size of the context to be written", 30)


# --- memory that no limit holds -----------------------------------------------------------------


async def test_programs_that_go_past_the_library_are_told_on_their_pods_and_strangers_on_the_node(
    bed: Bed, node: Node
) -> None:
    scripts = {
        "held": "cuda_malloc -size=1000 -hold",
        "aside": "aside_malloc 5000",
        # The shell of the image is linked statically; NVML says that it uses the card.
        "static": "sleep 1000",
    }
    await clear(bed, node.gpu)
    mains = [container(2, core=30, image=IMAGE, script=f"exec {script}") for script in scripts.values()]
    await bed.create_pods([pod(name, main) for name, main in zip(scripts, mains, strict=True)])
    held, *_ = [await running(bed, name, 60) for name in scripts]
    await until(lambda: holds(node, held, 1000 * MIB), "memory to be counted", 30)
    await until(lambda: printed(bed, "aside", "taken: 0"), "more than its limit to be taken", 30)
    used_mib = {"held": 1000 + CONTEXT_MIB, "aside": 5000 + CONTEXT_MIB, "static": 100}
    pids = {name: pid_of(node.gpu, name) for name in scripts}
    before = seen(node, held).cards[0].used
    told = [Process(pids[name], used_mib=mib) for name, mib in used_mib.items()]
    node.gpu.stub.processes(0, [*told, Process(1, used_mib=7)])

    texts = {
        name: await until_event(bed, name, lambda _: True, contract.EVENT_NOT_HELD, 40)
        for name in ("aside", "static", node.gpu.name)
    }

    assert "container main, held to 2150 MiB of card 0, has 1 process there" in texts["aside"]
    assert (
        f"pid {pids['aside']} (aside_malloc, 1 in its container) {5000 + CONTEXT_MIB} MiB" in texts["aside"]
    )
    assert f"pid {pids['static']} (sleep, 1 in its container) 100 MiB" in texts["static"]
    assert "linked statically, made for musl" in texts["static"]
    lines = node.gpu.agent.command.log.read_text().splitlines()
    assert sum("not_held" in line and "made for musl" in line for line in lines) == 2
    assert "pid 1 (" in texts[node.gpu.name]
    assert len(await events_of(bed, "aside", contract.EVENT_NOT_HELD)) == 1
    assert not await events_of(bed, "held", contract.EVENT_NOT_HELD)
    assert not await events_of(bed, "held", contract.EVENT_UNCOUNTED)
    assert seen(node, held).cards[0].used == before


async def holds(node: Node, found: Object, size: int) -> bool:
    read = region.read(region_file(node, found).read_bytes)
    return bool(read and read.cards[0].used > size)


async def printed(bed: Bed, name: str, line: str) -> bool:
    return line in await bed.kubectl("logs", name)
