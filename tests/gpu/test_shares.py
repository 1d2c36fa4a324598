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
from tests.fixtures.isolation import ROOT, Preloaded
from tests.gpu.conftest import PYTHON, needs

SECONDS = 20

MATMUL = """
import torch
a = torch.randn(4096, 4096, device="cuda")
print("ready", flush=True)
while True:
    for _ in range(16):
        b = a @ a
    torch.cuda.synchronize()
"""
KERNELS = """
from samples.driver import Driver
driver = Driver()
driver.open(0)
kernel = driver.kernel()
driver.launch(kernel, 1000)
print("ready", flush=True)
while True:
    for _ in range(10):
        driver.launch(kernel, 1_000_000)
    driver.wait()
"""


async def test_cublas_gets_a_quarter_of_the_gpus_time(quarter: Preloaded, gpu: Gpu) -> None:
    needs("torch")
    with running(quarter, [PYTHON, "-c", MATMUL]) as app:
        (shares,) = await regulated(gpu, (quarter, 25, app.pid))
    assert settled(shares) == pytest.approx(25, abs=5)


async def test_two_containers_get_their_compute_shares(
    quarter: Preloaded, others: Preloaded, gpu: Gpu
) -> None:
    command = [sys.executable, "-c", KERNELS]
    with running(quarter, command) as small, running(others, command) as large:
        both = await regulated(gpu, (quarter, 25, small.pid), (others, 75, large.pid))
    assert settled(both[0]) == pytest.approx(25, abs=7)
    assert settled(both[1]) == pytest.approx(75, abs=7)


@contextmanager
def running(container: Preloaded, command: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    """A program that has said that it is ready."""
    env = {**container.env, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as app:  # noqa: S603 - our own program
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


def settled(shares: Sequence[int]) -> float:
    """The mean of the second half."""
    half = shares[len(shares) // 2 :]
    return sum(half) / len(half)


async def regulated(gpu: Gpu, *programs: tuple[Preloaded, int, int]) -> list[list[int]]:
    """The percentage of each second, while rates are written as the node agent writes them.

    ``programs`` have a container, its compute share in percent, and a PID.
    """
    shares: list[list[int]] = [[] for _ in programs]
    async with Nvml() as driver:
        await driver.processes()
        before = [sample(container, 0) for container, _, _ in programs]
        for _ in range(SECONDS):
            await asyncio.sleep(1)  # the interval of samples, not a wait for something
            for each, (container, percent, pid) in enumerate(programs):
                load = (await process(driver, gpu, pid)).load
                shares[each].append(load.sm if load else 0)
                before[each] = now = sample(
                    container, shares[each][-1], before[each], alone=len(programs) == 1
                )
                rate = regulator.rate(percent, now.followed, container.seen().cards[0].rate)
                container.write(*region.rate_writes(0, rate, now.at_ns))
    sys.stdout.write(f"{gpu.model}: {shares} % in each second\n")
    return shares


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
