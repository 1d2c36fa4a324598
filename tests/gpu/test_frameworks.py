"""Frameworks under a limit of 4 GiB on a real GPU: they end there, and compute what they compute without it.

They are imported in the Python of the environment variable GPU_PYTHON (default ``python3``); tests of one
that is missing, or does not work without the library, are skipped.
"""

import json
import subprocess
from typing import Any

import pytest

from tests.gpu.conftest import LIMIT_MIB, OUT_OF_MEMORY, PYTHON, needs
from tests.support.fixtures.isolation import Preloaded

SPARE_MIB = 1024
"""A context, libraries that a framework loads onto the GPU, and the rest of its last block."""

TORCH_ALLOCATORS = ["", "expandable_segments:True", "backend:cudaMallocAsync"]
TORCH_FULL = """
import json, torch
blocks = []
try:
    while True:
        blocks.append(torch.ones(64 << 20, dtype=torch.float32, device="cuda"))
except torch.cuda.OutOfMemoryError:
    total = sum(float(each[-1]) for each in blocks)
    print(json.dumps([len(blocks) * 256, total == len(blocks), torch.cuda.mem_get_info()[1] >> 20]))
"""
TRAINING = """
import json, torch
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, target = torch.randn(256, 512).cuda(), torch.randint(10, (256,)).cuda()
losses = []
for _ in range(50):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(data), target)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps([losses[0], losses[-1]]))
"""
GRAPH = """
import json, torch
a = torch.ones(1024, 1024, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    b = (a @ a).relu() + 1
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    b = (a @ a).relu() + 1
a.fill_(2)
for _ in range(20):
    graph.replay()
torch.cuda.synchronize()
print(json.dumps([float(b.min()), float(b.max())]))
"""
SHARED = """
import json, torch, torch.multiprocessing as mp
def child(tensor, queue):
    tensor += 1
    torch.cuda.synchronize()
    try:
        torch.empty(3000 << 20, dtype=torch.uint8, device="cuda")
        queue.put("allocated")
    except torch.cuda.OutOfMemoryError:
        queue.put("refused")
if __name__ == "__main__":
    mp.set_start_method("spawn")
    tensor = torch.zeros(256 << 20, dtype=torch.float32, device="cuda")
    queue = mp.Queue()
    process = mp.Process(target=child, args=(tensor, queue))
    process.start()
    answer = queue.get(timeout=120)
    process.join()
    print(json.dumps([float(tensor.min()), answer]))
"""
COMPILED = """
import json, torch
@torch.compile
def f(x): return (x * 2 + 1).sum()
print(json.dumps([float(f(torch.ones(1 << 20, device="cuda")))]))
"""
PROFILED = """
import json, torch
from torch.profiler import ProfilerActivity, profile
a = torch.ones(1024, 1024, device="cuda")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
    b = a @ a
    torch.cuda.synchronize()
print(json.dumps([any(each.device_time_total > 0 for each in seen.key_averages())]))
"""
JAX = """
import json, jax, jax.numpy as jnp
device = jax.devices("gpu")[0]
a = jnp.ones((2048, 2048))
value = float((a @ a)[0, 0])
try:
    jnp.ones((LIMIT << 18) + 1).block_until_ready()
    ended = "allocated"
except Exception as error:
    ended = "refused" if "RESOURCE_EXHAUSTED" in str(error) else str(error)
print(json.dumps([value, ended, device.memory_stats()["bytes_limit"] >> 20]))
""".replace("LIMIT", str(LIMIT_MIB))
CUPY = """
import json, cupy
blocks = []
try:
    while True:
        blocks.append(cupy.ones(64 << 20, dtype=cupy.float32))
except cupy.cuda.memory.OutOfMemoryError:
    print(json.dumps([len(blocks) * 256, cupy.cuda.runtime.memGetInfo()[1] >> 20]))
"""
NUMBA = """
import json, sys, numpy
from numba import cuda
@cuda.jit
def add(a):
    i = cuda.grid(1)
    if i < a.size: a[i] += 1
array = cuda.to_device(numpy.zeros(1 << 20, dtype=numpy.float32))
add[4096, 256](array)
if "alone" in sys.argv:
    sys.exit()
try:
    cuda.device_array(LIMIT << 20, dtype=numpy.uint8)
    ended = 0
except Exception as error:
    ended = str(error)
print(json.dumps([float(array.copy_to_host().sum()), ended]))
""".replace("LIMIT", str(LIMIT_MIB))
SHARED_RUNTIME = """
import ctypes as c, glob, json, os, sys
names = glob.glob("/usr/local/cuda*/lib64/libcudart.so.1*")
for folder in sys.path:
    names += glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libcudart.so.1*"))
codes, at = [], c.c_void_p()
if names:
    cudart = c.CDLL(sorted(names)[0])
    codes = [cudart.cudaMalloc(c.byref(at), c.c_size_t(n << 20)) for n in (3000, 2000)]
print(json.dumps(codes))
"""


def reported(container: Preloaded, code: str, **env: str) -> Any:
    path = container.folder / "program.py"  # a file: its processes import it again
    path.write_text(code)
    done = container.run([PYTHON, str(path)], **env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("settings", TORCH_ALLOCATORS)
def test_pytorch_ends_at_the_limit_with_each_allocator(container: Preloaded, settings: str) -> None:
    needs("torch")
    mib, is_right, total_mib = reported(container, TORCH_FULL, PYTORCH_CUDA_ALLOC_CONF=settings)
    assert total_mib == LIMIT_MIB
    assert is_right
    assert LIMIT_MIB - SPARE_MIB <= mib < LIMIT_MIB


def test_pytorch_trains_as_it_does_without_the_library(container: Preloaded, quarter: Preloaded) -> None:
    needs("torch")
    alone = reported(container, TRAINING, LD_PRELOAD="")
    assert reported(container, TRAINING) == pytest.approx(alone, rel=1e-3)
    assert reported(quarter, TRAINING) == pytest.approx(alone, rel=1e-3)


def test_pytorch_replays_graphs(quarter: Preloaded) -> None:
    needs("torch")
    assert reported(quarter, GRAPH) == [4097, 4097]


def test_processes_of_pytorch_share_memory_and_the_limit(container: Preloaded) -> None:
    needs("torch")
    assert reported(container, SHARED) == [1, "refused"]


def test_the_profiler_of_pytorch_sees_kernels(quarter: Preloaded) -> None:
    needs("torch")
    assert reported(quarter, PROFILED) == [True]


def test_kernels_of_triton_run(quarter: Preloaded) -> None:
    needs("triton")
    assert reported(quarter, COMPILED) == [3 << 20]


def test_jax_ends_at_the_limit(container: Preloaded) -> None:
    needs("jax")
    value, ended, limit_mib = reported(container, JAX)
    assert value == 2048
    assert ended == "refused"
    assert LIMIT_MIB / 2 < limit_mib < LIMIT_MIB


def test_cupy_ends_at_the_limit(container: Preloaded) -> None:
    needs("cupy")
    mib, total_mib = reported(container, CUPY)
    assert total_mib == LIMIT_MIB
    assert LIMIT_MIB - SPARE_MIB <= mib < LIMIT_MIB


def test_numba_ends_at_the_limit(container: Preloaded) -> None:
    needs("numba.cuda")
    alone = subprocess.run([PYTHON, "-c", NUMBA, "alone"], capture_output=True, text=True, check=False)  # noqa: S603
    if alone.returncode:
        pytest.skip(f"numba does not work without the library: {alone.stderr.splitlines()[-1]}")
    value, ended = reported(container, NUMBA)
    assert value == 1 << 20
    assert "OUT_OF_MEMORY" in ended


def test_a_program_with_the_shared_runtime_ends_at_the_limit(container: Preloaded) -> None:
    codes = reported(container, SHARED_RUNTIME)
    if not codes:
        pytest.skip(f"neither /usr/local/cuda nor {PYTHON} has libcudart")
    assert codes == [0, OUT_OF_MEMORY]
