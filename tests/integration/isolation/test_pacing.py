"""Samples of the containers on a node's GPU: real kubelet, containerd, agent and library.

The GPU is a stub of NVML and of the CUDA driver. The stubs are independent: the test sets the utilization and
memory of processes in NVML, from the counters of the driver.
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
from gpushare.isolation.files import limits_at
from testbed import Bed, DevkitError, until
from testbed.control_plane.api import Object
from testbed.cuda import CudaStub
from testbed.daemons.agent import GpuNode, start_agent
from testbed.nvml import GpuProcess
from tests.support.fixtures.enforced_nodes import (
    IMAGE,
    add_enforced_node,
    container_directory,
    counted,
    region_of,
)
from tests.support.fixtures.gpu_nodes import (
    clear,
    container,
    events_of,
    metric,
    pod,
    running,
    start_pods,
    until_event,
)
from tests.support.fixtures.isolation import MIB, needs_compiler
from tests.support.recount import pid_of

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module"), needs_compiler]

CONTEXT_MIB = 300
WINDOW_S = 10.0
NOT_SUPPORTED = 3
AGE = "gpushare_device_plugin_pacing_sample_age_seconds"


class Node:
    """A node of mode core_mem, and the driver of its GPU."""

    def __init__(self, gpu: GpuNode, cuda: CudaStub) -> None:
        self.gpu, self.cuda = gpu, cuda
        self.pids: list[int] = []
        self.samples = True
        self._history = deque([(time.monotonic(), cuda.worked_ns(0))], maxlen=1000)

    def parts(self, window_s: float) -> list[float]:
        """Recent percentage of the GPU's time of each container, in the order of their start."""
        now, last = self._history[-1]
        then, first = next(each for each in self._history if now - each[0] <= window_s)
        elapsed_ns = max(1.0, (now - then) * 1e9)
        return [100 * (new - old) / elapsed_ns for new, old in zip_longest(last, first, fillvalue=0)]

    async def measure(self) -> None:
        """Copy the usage in the CUDA stub to the NVML stub, until cancelled; no loads without ``samples``."""
        self.gpu.stub.set(0, gpu_util=100)
        while True:
            self._history.append((time.monotonic(), self.cuda.worked_ns(0)))
            reported = [
                GpuProcess(pid, CONTEXT_MIB, sm=min(100, round(part)) if self.samples else 0)
                for pid, part in zip(self.pids, self.parts(1.0), strict=True)
            ]
            self.gpu.stub.processes(0, reported)
            await asyncio.sleep(0.2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(bed: Bed, package: Path, archive: Path) -> AsyncIterator[Node]:
    label = (contract.LABEL_MODE, "core_mem")
    found, cuda = await add_enforced_node(bed, label, package, [archive], context_mib=CONTEXT_MIB)
    # The node has a separate PID namespace.
    gpu = await start_agent(found, ["--proc-root=/proc"])
    yield Node(gpu, cuda)
    await clear(bed, gpu)


async def start(bed: Bed, node: Node, name: str, core: int) -> Object:
    """A container whose first process launches kernels of 2 ms in an endless loop."""
    main = container(4, core=core, image=IMAGE, script="exec launch_kernels 2000000")
    (found,) = await start_pods(bed, pod(name, main), timeout_s=60)

    async def launches() -> bool:
        return len(node.cuda.worked_ns(0)) > len(node.pids)

    await until(launches, f"{name} to launch kernels")
    node.pids.append(pid_of(node.gpu, name))
    return found


async def test_two_containers_get_their_compute_shares_and_keep_them_without_samples(
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
        uses = [region_of(node.gpu, each).cards[0] for each in (small, large)]
        assert all(use.rate > 0 for use in uses)
        assert await metric(node.gpu, AGE) < 10
        await until_measured(node, small)

        async def old() -> bool:
            return await metric(node.gpu, AGE) > WINDOW_S

        node.samples = False
        await until(old, "the age of samples that lag")
        await until_parts(node, 25, 75)
        node.samples = True
        await until(lambda: recent(node), "samples")

        node.gpu.stub.fail("nvmlDeviceGetProcessUtilization", NOT_SUPPORTED)
        await until(old, "the age of the sample in the metrics")
        await until_parts(node, 25, 75)
    finally:
        node.gpu.stub.heal()
        measuring.cancel()
    await bed.kubectl("delete", "pod", "large", "--grace-period=1")
    (later,) = await start_pods(
        bed, pod("later", container(2, core=10, image=IMAGE, script="exec sleep 1000")), timeout_s=60
    )
    assert [estimate(node, each) for each in (small, later)] == [121, CONTEXT_MIB]


def estimate(node: Node, found: Object) -> int:
    """MiB of a context according to the limit file."""
    (limit,) = limits_at(container_directory(node.gpu, found) / layout.LIMIT)
    return limit.context_mib


async def recent(node: Node) -> bool:
    return await metric(node.gpu, AGE) < WINDOW_S


async def until_parts(node: Node, *percents: int) -> None:
    """Wait until the containers have these percentages of the GPU's time, ± 5."""
    parts: list[Any] = []

    async def right() -> bool:
        parts[:] = node.parts(WINDOW_S)
        return all(abs(part - percent) <= 5 for part, percent in zip(parts, percents, strict=True))

    with suppress(DevkitError):
        await until(right, "the parts", 60, 0.5)
    assert parts == [pytest.approx(percent, abs=5) for percent in percents]


async def until_measured(node: Node, found: Object) -> None:
    """Wait until the agent has written the measured size of the container's context."""
    (process,) = region_of(node.gpu, found).processes
    sizes, number = region.context_writes(process, [CONTEXT_MIB * MIB])
    expected = number.content + sizes.content[len(number.content) :]

    async def written() -> bool:
        return (
            (container_directory(node.gpu, found) / layout.REGION)
            .read_bytes()[sizes.at :]
            .startswith(expected)
        )

    await until(written, "the size of the context to be written", 30)


# --- memory outside of the limits ---------------------------------------------------------------


async def test_programs_that_bypass_the_library_cause_events_on_their_pods_and_others_on_the_node(
    bed: Bed, node: Node
) -> None:
    scripts = {
        "limited": "cuda_malloc -size=1000 -hold",
        "aside": "aside_malloc 5000",
        # The shell of the image is linked statically; NVML reports that it uses the GPU.
        "static": "sleep 1000",
    }
    await clear(bed, node.gpu)
    mains = [container(2, core=30, image=IMAGE, script=f"exec {script}") for script in scripts.values()]
    await bed.create_pods([pod(name, main) for name, main in zip(scripts, mains, strict=True)])
    limited, *_ = [await running(bed, name, 60) for name in scripts]
    await until(lambda: has_counted(node, limited, 1000 * MIB), "memory to be counted", 30)
    await until(lambda: printed(bed, "aside", "taken: 0"), "more than its limit to be taken", 30)
    used_mib = {"limited": 1000 + CONTEXT_MIB, "aside": 5000 + CONTEXT_MIB, "static": 100}
    pids = {name: pid_of(node.gpu, name) for name in scripts}
    before = region_of(node.gpu, limited).cards[0].used
    reported = [GpuProcess(pids[name], used_mib=mib) for name, mib in used_mib.items()]
    node.gpu.stub.processes(0, [*reported, GpuProcess(1, used_mib=7)])

    texts = {
        name: await until_event(bed, name, lambda _: True, contract.EVENT_NOT_HELD, 40)
        for name in ("aside", "static", node.gpu.name)
    }

    assert "container main, limited to 2150 MiB of GPU 0, has 1 process unknown" in texts["aside"]
    assert (
        f"pid {pids['aside']} (aside_malloc, 1 in its container) {5000 + CONTEXT_MIB} MiB" in texts["aside"]
    )
    assert f"pid {pids['static']} (sleep, 1 in its container) 100 MiB" in texts["static"]
    assert "linked statically, use musl" in texts["static"]
    lines = node.gpu.agent.command.log.read_text().splitlines()
    assert sum("not_held" in line and "use musl" in line for line in lines) == 2
    assert "pid 1 (" in texts[node.gpu.name]
    assert len(await events_of(bed, "aside", contract.EVENT_NOT_HELD)) == 1
    assert not await events_of(bed, "limited", contract.EVENT_NOT_HELD)
    assert not await events_of(bed, "limited", contract.EVENT_UNCOUNTED)
    assert region_of(node.gpu, limited).cards[0].used == before


async def has_counted(node: Node, found: Object, size: int) -> bool:
    return counted(node.gpu, found) > size


async def printed(bed: Bed, name: str, line: str) -> bool:
    return line in await bed.kubectl("logs", name)
