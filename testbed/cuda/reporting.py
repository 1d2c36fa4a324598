"""Reports the processes of a stub CUDA driver in the stub of NVML: on a GPU, one driver does both.

What belongs here: PIDs, memory and load of processes. What does not: the counters (``native/``), and what
NVML makes of them (``testbed.nvml``).
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Never

from devkit.waiting import meanwhile
from testbed.cuda.stub import CudaStub, CudaUser
from testbed.nvml import GpuProcess, NvmlStub

_INTERVAL_S = 0.25
_WINDOW = 5
"""Samples in a window of a second, like that of the driver."""
_MIB = 1 << 20
_PERCENT = 100


@dataclass(frozen=True)
class StubSample:
    """The running processes at a time in ns, by their PIDs on the node."""

    at_ns: int
    users: Mapping[int, CudaUser]


@asynccontextmanager
async def reporting(cuda: CudaStub, nvml: NvmlStub) -> AsyncIterator[None]:
    """Report processes while the body runs."""
    async with meanwhile(_report(cuda, nvml)):
        yield


def processes(card: int, before: StubSample, now: StubSample) -> list[GpuProcess]:
    """Return the processes with memory on a GPU; their load is their part of the time between the samples.

    Like NVML on a GPU, it does not report managed memory as that of a process.
    """
    elapsed_ns = max(1, now.at_ns - before.at_ns)
    found = []
    for pid, user in sorted(now.users.items()):
        if user.used[card]:
            earlier = before.users.get(pid)
            worked_ns = user.busy_ns[card] - (earlier.busy_ns[card] if earlier else 0)
            sm = min(_PERCENT, round(_PERCENT * worked_ns / elapsed_ns))
            found.append(GpuProcess(pid, (user.used[card] - user.managed[card]) // _MIB, sm=sm))
    return found


async def _report(cuda: CudaStub, nvml: NvmlStub) -> Never:
    samples = deque([_sample(cuda)], maxlen=_WINDOW)
    while True:
        await asyncio.sleep(_INTERVAL_S)
        samples.append(_sample(cuda))
        for index, card in enumerate(nvml.description.cards):
            found = processes(index, samples[0], samples[-1])
            if found != list(card.processes):
                nvml.set(index, processes=tuple(found), gpu_util=_sum(found))


def _sum(found: Sequence[GpuProcess]) -> int:
    return min(_PERCENT, sum(each.sm for each in found))


def _sample(cuda: CudaStub) -> StubSample:
    users = {pid: user for user in cuda.users() if (pid := _pid_on_node(user.pid))}
    return StubSample(time.monotonic_ns(), users)


def _pid_on_node(pid: int) -> int:
    """Return the PID in the namespace of the node, which is below that of the testbed; 0 if it has exited."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                _, _, *below = line.split()
                return int(below[0]) if below else pid
    return 0
