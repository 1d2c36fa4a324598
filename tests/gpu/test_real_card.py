"""A limit of 4 GiB on a real GPU, with the driver API, the runtime, and a framework.

Frameworks are imported in the Python of the environment variable GPU_PYTHON (default ``python3``); tests of a
missing one are skipped.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from gpushare.adapters.nvml import Nvml
from gpushare.deviceplugin.core import regulator
from gpushare.isolation import region
from gpushare.model.hardware import Gpu
from gpushare.model.readings import ProcessReading
from tests.fixtures.isolation import PRELUDE, ROOT, Preloaded
from tests.gpu.conftest import LIMIT_MIB

PYTHON = os.environ.get("GPU_PYTHON", "python3")
OUT_OF_MEMORY = 2
SECONDS = 20

VMM = """
class Prop(c.Structure):
    _fields_ = [(n, c.c_uint) for n in ("type", "handles", "where", "id")] + [("rest", c.c_char * 80)]
context()
def create(mib):
    handle = c.c_uint64()
    return cuda.cuMemCreate(c.byref(handle), c.c_size_t(mib * MIB), c.byref(Prop(1, 0, 1, 0)), c.c_uint64(0))
"""
NVML = """
import ctypes as c
nvml = c.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
device, memory = c.c_void_p(), (c.c_ulonglong * 3)()
nvml.nvmlDeviceGetHandleByIndex_v2(0, c.byref(device))
print([nvml.nvmlDeviceGetMemoryInfo(device, memory), memory[0] >> 20])
"""
TORCH = """
import json, torch
block, allocated = 256 << 20, []
try:
    while True:
        allocated.append(torch.empty(block, dtype=torch.uint8, device="cuda"))
except torch.cuda.OutOfMemoryError:
    print(json.dumps([len(allocated) * 256, torch.cuda.mem_get_info()[1] >> 20]))
"""
CUDA_MALLOC = """
import ctypes as c, ctypes.util, glob, os, sys, json
names = glob.glob("/usr/local/cuda*/lib64/libcudart.so.1*")
for folder in sys.path:
    names += glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libcudart.so.1*"))
if not names:
    raise SystemExit("no libcudart")
cudart, at = c.CDLL(sorted(names)[0]), c.c_void_p()
print(json.dumps([cudart.cudaMalloc(c.byref(at), c.c_size_t(n << 20)) for n in (3000, 2000)]))
"""
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


def has(module: str) -> None:
    done = subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False)  # noqa: S603 - a Python
    if done.returncode:
        pytest.skip(f"{PYTHON} has no {module}: set GPU_PYTHON to one that has")


def reported(container: Preloaded, code: str) -> Any:
    done = container.run([PYTHON, "-c", code])
    if "no libcudart" in done.stderr:
        pytest.skip("there is no libcudart")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_memory_ends_at_the_limit(container: Preloaded) -> None:
    code = f"{PRELUDE}context(); say(alloc(3000)[0], alloc(2000)[0], left()[2])"
    assert reported(container, code) == [0, OUT_OF_MEMORY, LIMIT_MIB]


def test_physical_memory_ends_at_the_limit(container: Preloaded) -> None:
    assert reported(container, f"{PRELUDE}{VMM}say(create(3000), create(2000))") == [0, OUT_OF_MEMORY]


def test_nvml_shows_the_limit(container: Preloaded) -> None:
    assert reported(container, NVML) == [0, LIMIT_MIB]


def test_memory_of_the_cuda_runtime_ends_at_the_limit(container: Preloaded) -> None:
    assert reported(container, CUDA_MALLOC) == [0, OUT_OF_MEMORY]


def test_pytorch_runs_out_of_memory_at_the_limit(container: Preloaded) -> None:
    has("torch")
    allocated_mib, total_mib = reported(container, TORCH)
    assert total_mib == LIMIT_MIB
    assert LIMIT_MIB - 1024 <= allocated_mib < LIMIT_MIB


async def test_the_driver_counts_no_more_than_the_region(container: Preloaded, gpu: Gpu) -> None:
    # The estimate for a context is large enough; the agent would measure it.
    with container.start("context(); alloc(1000); say(0); sys.stdin.read()") as app:
        assert app.stdout is not None
        app.stdout.readline()
        (use,) = container.seen().cards
        async with Nvml() as driver:
            shown = (await process(driver, gpu, app.pid)).used_bytes
        app.communicate("")
    sys.stdout.write(f"{gpu.model}: {shown} bytes by the driver, {use.used} by the region\n")
    assert shown is not None
    assert shown <= use.used


async def test_cublas_gets_a_quarter_of_the_gpus_time(quarter: Preloaded, gpu: Gpu) -> None:
    has("torch")
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
                now = sample(container, shares[each][-1], before[each])
                rate = regulator.rate(percent, now.since, container.seen().cards[0].rate)
                container.write(*region.rate_writes(0, rate, now.at_ns))
                before[each] = now
    sys.stdout.write(f"{gpu.model}: {shares} % in each second\n")
    return shares


class Sample(NamedTuple):
    """Time and spent tokens of a container, and what happened since the last sample."""

    at_ns: int
    spent: int
    since: regulator.LaunchSample


def sample(container: Preloaded, busy: int, before: Sample | None = None) -> Sample:
    """A sample of a container that used ``busy`` percent of the time."""
    (use,) = container.seen().cards
    at_ns, spent = time.monotonic_ns(), use.spent
    elapsed_ns, tokens = (at_ns - before.at_ns, spent - before.spent) if before else (0, 0)
    return Sample(at_ns, spent, regulator.LaunchSample(elapsed_ns, elapsed_ns * busy // 100, tokens))
