"""Compute shares on a real GPU: its time by NVML, while the tests set the rates as the node agent does."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import pytest

from gpushare.adapters.nvml import Nvml
from gpushare.deviceplugin.core.pacing import ContainerPacing, busy_percent, pace
from gpushare.isolation.limits import parse
from gpushare.model.hardware import Gpu
from gpushare.model.readings import ProcessReading
from tests.gpu.conftest import PYTHON, needs
from tests.support.fixtures.isolation import Preloaded

SETTLE_S, MEASURE_S = 10, 30

MATMUL = """
import torch
a = torch.randn(4096, 4096, device="cuda")
print("ready", flush=True)
while True:
    for _ in range(16):
        b = a @ a
    torch.cuda.synchronize()
"""


async def test_a_container_alone_gets_a_quarter_of_the_gpus_time(quarter: Preloaded, gpu: Gpu) -> None:
    needs("torch")
    with running(quarter) as app:
        (use,) = await regulated(gpu, (quarter, 25, app.pid))
    assert sum(use.percents) / MEASURE_S == pytest.approx(25, abs=2)


async def test_two_containers_get_their_parts_of_the_work(
    quarter: Preloaded, others: Preloaded, gpu: Gpu
) -> None:
    """Both run the same kernels."""
    needs("torch")
    with running(quarter) as small, running(others) as large:
        both = await regulated(gpu, (quarter, 25, small.pid), (others, 75, large.pid))
    few, many = (use.work for use in both)
    sys.stdout.write(f"{few / (few + many):.1%} of the work\n")
    assert 100 * few / (few + many) == pytest.approx(25, abs=7)


SERVER = """
import json, time, torch
weights = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) / 64
tokens = torch.randn(8, 4096, device="cuda", dtype=torch.bfloat16)
text = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
def layers(state, count):
    for _ in range(count):
        state = torch.tanh(state @ weights)
    return state
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    layers(tokens, 256)
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    layers(tokens, 256)
def decode(seconds):
    steps, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        graph.replay()
        torch.cuda.synchronize()
        steps += 1
    return steps / seconds
def prompt():
    begin = time.monotonic()
    layers(text, 32)
    torch.cuda.synchronize()
    return time.monotonic() - begin
prompt(), decode(1)
free = min(prompt() for _ in range(3)), decode(1)
print("ready", flush=True)
decode(10)
turns = [(prompt(), decode(4)) for _ in range(4)]
print(json.dumps([free, turns]), flush=True)
decode(60)
"""


async def test_a_prompt_does_not_stall_a_server_that_decodes_by_graphs(quarter: Preloaded, gpu: Gpu) -> None:
    """The first numbers are from before the first sample, without a limit."""
    needs("torch")
    with running(quarter, SERVER) as app:
        await regulated(gpu, (quarter, 25, app.pid))
        assert app.stdout is not None
        (prompt_s, steps), turns = json.loads(app.stdout.readline())
    sys.stdout.write(f"free: {prompt_s:.3f} s, {steps:.1f} steps/s; with 25 %: {turns}\n")
    assert max(seconds for seconds, _ in turns) < 2 * prompt_s / 0.25 + 1 / (steps * 0.25)
    assert mean(found for _, found in turns) / steps == pytest.approx(0.25, abs=0.05)


RANK = r"""
import ctypes as c, mmap, sys, time
cuda = c.CDLL("libcuda.so.1")
def check(code):
    assert code == 0, code
check(cuda.cuInit(0))
primary = c.c_void_p()
check(cuda.cuDevicePrimaryCtxRetain(c.byref(primary), 0))
check(cuda.cuCtxSetCurrent(primary))
image = b'''.version 6.0
.target sm_50
.address_size 64
.visible .entry step(.param .u64 own, .param .u64 other, .param .u32 round, .param .u32 turns)
{
    .reg .u64 %own, %other;
    .reg .u32 %round, %left, %seen;
    .reg .pred %more;
    ld.param.u64 %own, [own];
    ld.param.u64 %other, [other];
    ld.param.u32 %round, [round];
    ld.param.u32 %left, [turns];
WORK:
    ld.volatile.global.u32 %seen, [%own];
    sub.u32 %left, %left, 1;
    setp.ne.u32 %more, %left, 0;
    @%more bra WORK;
    st.volatile.global.u32 [%own], %round;
    membar.sys;
MEET:
    ld.volatile.global.u32 %seen, [%other];
    setp.lt.u32 %more, %seen, %round;
    @%more bra MEET;
    ret;
}
'''
module, step = c.c_void_p(), c.c_void_p()
check(cuda.cuModuleLoadData(c.byref(module), image))
check(cuda.cuModuleGetFunction(c.byref(step), module, b"step"))
file = open(sys.argv[1], "r+b")
view = mmap.mmap(file.fileno(), 8192)
at = c.addressof(c.c_char.from_buffer(view))
check(cuda.cuMemHostRegister_v2(c.c_void_p(at), c.c_size_t(8192), 2))
base = c.c_uint64()
check(cuda.cuMemHostGetDevicePointer_v2(c.byref(base), c.c_void_p(at), 0))
rank = int(sys.argv[2])
own, other = c.c_uint64(base.value + 4096 * rank), c.c_uint64(base.value + 4096 * (1 - rank))
print("ready", flush=True)
round, steps, began = 0, 0, time.monotonic()
while True:
    round += 1
    now, turns = c.c_uint32(round), c.c_uint32(1000)
    parameters = (c.c_void_p * 4)(*(c.addressof(each) for each in (own, other, now, turns)))
    check(cuda.cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, None, parameters, None))
    check(cuda.cuCtxSynchronize())
    steps += 1
    if time.monotonic() - began > 10:
        print(steps, flush=True)
        steps, began = 0, time.monotonic()
"""


async def test_ranks_that_wait_for_each_other_do_not_come_to_a_standstill(
    quarter: Preloaded, others: Preloaded, gpu: Gpu, tmp_path: Path
) -> None:
    """Both are on one GPU, and each waits in its kernel for the other, as with NCCL."""
    meeting = tmp_path / "meeting"
    meeting.write_bytes(bytes(8192))
    with (
        running(quarter, RANK, str(meeting), "0") as one,
        running(others, RANK, str(meeting), "1") as two,
    ):
        await regulated(gpu, (quarter, 25, one.pid), (others, 75, two.pid))
        assert one.stdout is not None
        steps = [int(one.stdout.readline()) for _ in range(3)]
    sys.stdout.write(f"steps in each 10 s: {steps}\n")
    assert steps[-1] > 0.5 * max(steps)


@contextmanager
def running(container: Preloaded, code: str = MATMUL, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A program that has said that it is ready; by default it multiplies matrices."""
    command = [PYTHON, "-c", code, *arguments]
    with subprocess.Popen(command, env=container.env, stdout=subprocess.PIPE, text=True) as app:  # noqa: S603 - our own program
        try:
            assert app.stdout is not None
            assert app.stdout.readline() == "ready\n"
            yield app
        finally:
            app.kill()


class Use(NamedTuple):
    """A container after it settled: its part of the GPU's time in each second, and the work it launched."""

    percents: Sequence[int]
    work: int


async def regulated(gpu: Gpu, *programs: tuple[Preloaded, int, int]) -> list[Use]:
    """The use of the GPU while rates are written as the node agent writes them.

    ``programs`` have a container, its compute share in percent, and a PID.
    """
    percents: list[list[int]] = [[] for _ in programs]
    work: list[list[int]] = [[] for _ in programs]
    paced = [ContainerPacing()] * len(programs)
    async with Nvml() as driver:
        await driver.processes()
        for _ in range(SETTLE_S + MEASURE_S):
            await asyncio.sleep(1)  # the interval of samples, not a wait for something
            processes = (await driver.processes())[gpu.uuid]
            for each, (container, _, pid) in enumerate(programs):
                own = [process for process in processes if process.pid == pid]
                if not own:
                    pytest.skip(f"the driver does not list {pid}: this needs the host's PID namespace")
                paced[each] = paced_with(container, own, processes, paced[each])
                percents[each].append(busy_percent(own))
                work[each].append(sum(paced[each].rates[0].work))
    sys.stdout.write(f"{gpu.model}: {percents} % in each second\n")
    return [
        Use(seconds[SETTLE_S:], counts[-1] - counts[SETTLE_S - 1])
        for seconds, counts in zip(percents, work, strict=True)
    ]


def paced_with(
    container: Preloaded,
    own: Sequence[ProcessReading],
    processes: Sequence[ProcessReading],
    before: ContainerPacing,
) -> ContainerPacing:
    """The pacing of a container after a poll; its rate is in its region."""
    limits = parse((container.folder / "limit").read_text())
    contended = [each.uuid for each in limits if busy_percent(own) < busy_percent(processes)]
    on = {each.pid: each for each in own}
    paced, writes = pace(limits, container.seen(), [on], time.monotonic_ns(), before, contended)
    container.write(*writes)
    return paced
