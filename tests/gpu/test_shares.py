"""Compute shares on a real GPU: its time by NVML, while the tests set the rates as the node agent does."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from gpushare.adapters.nvml import Nvml
from gpushare.deviceplugin.core.pacing import ContainerPacing, busy_percent, pace
from gpushare.isolation.limits import parse
from gpushare.model.hardware import Gpu
from gpushare.model.readings import ProcessReading
from tests.fixtures.isolation import Preloaded
from tests.gpu.conftest import PYTHON, needs

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


@contextmanager
def running(container: Preloaded) -> Iterator["subprocess.Popen[str]"]:
    """A program that multiplies matrices, and has said that it is ready."""
    command = [PYTHON, "-c", MATMUL]
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
