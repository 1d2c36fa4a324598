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
from gpushare.deviceplugin.core import regulator
from gpushare.isolation import region
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
    """Both run the same kernels, so their tokens are their work."""
    needs("torch")
    with running(quarter) as small, running(others) as large:
        both = await regulated(gpu, (quarter, 25, small.pid), (others, 75, large.pid))
    few, many = (use.spent for use in both)
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


async def process(driver: Nvml, gpu: Gpu, pid: int) -> ProcessReading:
    found = {each.pid: each for each in (await driver.processes())[gpu.uuid]}
    if pid not in found:
        pytest.skip(f"the driver lists {sorted(found)}, not {pid}: this needs the host's PID namespace")
    return found[pid]


class Use(NamedTuple):
    """A container after it settled: its part of the GPU's time in each second, and the tokens it spent."""

    percents: Sequence[int]
    spent: int


async def regulated(gpu: Gpu, *programs: tuple[Preloaded, int, int]) -> list[Use]:
    """The use of the GPU while rates are written as the node agent writes them.

    ``programs`` have a container, its compute share in percent, and a PID.
    """
    percents: list[list[int]] = [[] for _ in programs]
    spent: list[list[int]] = [[] for _ in programs]
    async with Nvml() as driver:
        await driver.processes()
        before = [sample(container, 0) for container, _, _ in programs]
        for _ in range(SETTLE_S + MEASURE_S):
            await asyncio.sleep(1)  # the interval of samples, not a wait for something
            for each, (container, percent, pid) in enumerate(programs):
                load = (await process(driver, gpu, pid)).load
                busy = load.sm if load else 0
                before[each] = now = sample(container, busy, before[each], alone=len(programs) == 1)
                percents[each].append(busy)
                spent[each].append(now.spent)
                rate = regulator.rate(percent, now.followed, container.seen().cards[0].rate)
                container.write(*region.rate_writes(0, rate, now.at_ns))
    sys.stdout.write(f"{gpu.model}: {percents} % in each second\n")
    return [
        Use(seconds[SETTLE_S:], tokens[-1] - tokens[SETTLE_S - 1])
        for seconds, tokens in zip(percents, spent, strict=True)
    ]


class Sample(NamedTuple):
    """Time and spent tokens of a container, and what its rate follows."""

    at_ns: int
    spent: int
    followed: regulator.LaunchSample


def sample(container: Preloaded, busy: int, before: Sample | None = None, *, alone: bool = False) -> Sample:
    """A sample of a container that used ``busy`` percent of the time."""
    (use,) = container.seen().cards
    at_ns, spent = time.monotonic_ns(), use.spent
    elapsed_ns, tokens = (at_ns - before.at_ns, spent - before.spent) if before else (0, 0)
    new = regulator.LaunchSample(elapsed_ns, elapsed_ns * busy // 100, tokens)
    return Sample(
        at_ns, spent, regulator.with_history(new, before.followed if before and not alone else None)
    )
