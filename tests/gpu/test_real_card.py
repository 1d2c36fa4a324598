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
from typing import Any

import pytest

from gpushare.adapters.nvml import Nvml
from gpushare.deviceplugin.core import regulator
from gpushare.isolation import region
from gpushare.model.hardware import Gpu
from gpushare.model.readings import ProcessReading
from tests.fixtures.isolation import PRELUDE, Preloaded
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
    with subprocess.Popen([PYTHON, "-c", MATMUL], env=quarter.env, stdout=subprocess.PIPE, text=True) as app:  # noqa: ASYNC220, S603 - ours
        try:
            assert app.stdout is not None
            assert app.stdout.readline() == "ready\n"
            shares = await regulated(quarter, gpu, app.pid)
        finally:
            app.kill()
    sys.stdout.write(f"{gpu.model}: {shares} % in each second\n")
    settled = shares[SECONDS // 2 :]
    assert sum(settled) / len(settled) == pytest.approx(25, abs=5)


async def process(driver: Nvml, gpu: Gpu, pid: int) -> ProcessReading:
    found = {each.pid: each for each in (await driver.processes())[gpu.uuid]}
    if pid not in found:
        pytest.skip(f"the driver lists {sorted(found)}, not {pid}: this needs the host's PID namespace")
    return found[pid]


async def regulated(container: Preloaded, gpu: Gpu, pid: int) -> list[int]:
    """The percentage of each second, while rates are written as the node agent writes them."""
    shares = []
    async with Nvml() as driver:
        await driver.processes()
        last_ns, last_spent = time.monotonic_ns(), container.seen().cards[0].spent
        for _ in range(SECONDS):
            await asyncio.sleep(1)  # the interval of samples, not a wait for something
            load = (await process(driver, gpu, pid)).load
            busy = load.sm if load else 0
            now_ns, (use,) = time.monotonic_ns(), container.seen().cards
            elapsed_ns = now_ns - last_ns
            sample = regulator.LaunchSample(elapsed_ns, elapsed_ns * busy // 100, use.spent - last_spent)
            container.write(*region.rate_writes(0, regulator.rate(25, sample, use.rate), now_ns))
            shares.append(busy)
            last_ns, last_spent = now_ns, use.spent
    return shares
