"""The library beside the driver of a real GPU: what each counts of a kind of memory, and when it is freed."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gpushare.adapters.nvml import Nvml
from gpushare.model.hardware import Gpu
from tests.gpu.conftest import ESTIMATE_MIB, LIMIT_MIB, OUT_OF_MEMORY
from tests.support.fixtures.isolation import MIB, ROOT, Preloaded
from tests.support.waiting import until

ROUNDING = 0.01
"""The driver pads: an array of 1000 MiB takes 1008."""

KINDS = {
    "linear": "def take(mib): return alloc(mib)[0]",
    "rows": """
def take(mib):
    at, pitch = c.c_uint64(), c.c_size_t()
    return cuda.cuMemAllocPitch_v2(c.byref(at), c.byref(pitch), c.c_size_t(MIB), c.c_size_t(mib), 16)
""",
    "managed": """
def take(mib):
    at, size = c.c_uint64(), c.c_size_t(mib * MIB)
    refused = cuda.cuMemAllocManaged(c.byref(at), size, 1)
    return refused or cuda.cuMemsetD8_v2(at, 1, size) or cuda.cuCtxSynchronize()
""",
    "array": """
class Shape(c.Structure): _fields_ = [(n, c.c_size_t) for n in "whd"] + [(n, c.c_uint) for n in "fcx"]
def take(mib):
    at = c.c_void_p()
    return cuda.cuArray3DCreate_v2(c.byref(at), c.byref(Shape(512, 512, mib, 32, 1, 0)))
""",
    "physical": """
class Prop(c.Structure):
    _fields_ = [(n, c.c_uint) for n in ("type", "handles", "where", "id")] + [("rest", c.c_char * 80)]
def take(mib):
    handle = c.c_uint64()
    return cuda.cuMemCreate(c.byref(handle), c.c_size_t(mib * MIB), c.byref(Prop(1, 0, 1, 0)), c.c_uint64(0))
""",
    "pool": """
def take(mib):
    at = c.c_uint64()
    return cuda.cuMemAllocAsync(c.byref(at), c.c_size_t(mib * MIB), None) or cuda.cuCtxSynchronize()
""",
    "graph": """
class Node(c.Structure):
    _fields_ = [(n, c.c_uint) for n in ("type", "handles", "where", "id")] + [("rest", c.c_char * 72)]
    _fields_ += [("access", c.c_void_p), ("count", c.c_size_t), ("bytes", c.c_size_t), ("at", c.c_uint64)]
def take(mib):
    graph, node, run = c.c_void_p(), c.c_void_p(), c.c_void_p()
    wanted = Node(1, 0, 1, 0, b"", None, 0, mib * MIB, 0)
    return (
        cuda.cuGraphCreate(c.byref(graph), 0)
        or cuda.cuGraphAddMemAllocNode(c.byref(node), graph, None, c.c_size_t(0), c.byref(wanted))
        or cuda.cuGraphInstantiateWithFlags(c.byref(run), graph, c.c_uint64(0))
        or cuda.cuGraphLaunch(run, None)
        or cuda.cuCtxSynchronize()
    )
""",
    "capture": """
def take(mib):
    stream, graph, run, at = c.c_void_p(), c.c_void_p(), c.c_void_p(), c.c_uint64()
    cuda.cuStreamCreate(c.byref(stream), 1)
    cuda.cuStreamBeginCapture_v2(stream, 0)
    refused = cuda.cuMemAllocAsync(c.byref(at), c.c_size_t(mib * MIB), stream)
    ended = cuda.cuStreamEndCapture(stream, c.byref(graph))
    return (
        refused
        or ended
        or cuda.cuGraphInstantiateWithFlags(c.byref(run), graph, c.c_uint64(0))
        or cuda.cuGraphLaunch(run, stream)
        or cuda.cuStreamSynchronize(stream)
    )
""",
}
NVML = """
nvml = c.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
device, memory = c.c_void_p(), (c.c_ulonglong * 3)()
nvml.nvmlDeviceGetHandleByIndex_v2(0, c.byref(device))
say(nvml.nvmlDeviceGetMemoryInfo(device, memory), memory[0] >> 20)
"""


class Driver:
    """What the driver of the GPU reports."""

    def __init__(self, nvml: Nvml, gpu: Gpu) -> None:
        self._nvml, self._gpu = nvml, gpu

    async def bytes_of(self, pid: int) -> int:
        """Memory of a process; 0 if the driver does not list it."""
        found = {each.pid: each.used_bytes for each in (await self._nvml.processes())[self._gpu.uuid]}
        return found.get(pid) or 0


@pytest_asyncio.fixture
async def driver(gpu: Gpu) -> AsyncIterator[Driver]:
    async with Nvml() as nvml:
        yield Driver(nvml, gpu)


def line(app: "subprocess.Popen[str]") -> list[int]:
    assert app.stdout is not None
    answer: list[int] = json.loads(app.stdout.readline())
    return answer


def report(gpu: Gpu, text: str) -> None:
    sys.stdout.write(f"{gpu.model}: {text}\n")


@pytest.mark.parametrize("kind", KINDS)
async def test_the_library_counts_what_the_driver_allocates(
    container: Preloaded, gpu: Gpu, driver: Driver, kind: str
) -> None:
    code = (
        f"{KINDS[kind]}\nsay(context()); sys.stdin.readline(); say(take(1000), left()[1]); sys.stdin.read()"
    )
    with container.start(code) as app:
        assert app.stdin is not None
        assert line(app) == [0]
        context = await driver.bytes_of(app.pid)
        if not context:
            pytest.skip("the driver does not list the process: this needs the PID namespace of the host")
        app.stdin.write("\n")
        app.stdin.flush()
        verdict, free_mib = line(app)
        more = await driver.bytes_of(app.pid) - context
        counted = container.seen().cards[0].used - ESTIMATE_MIB * MIB
        app.kill()
    report(
        gpu, f"context {context >> 20} MiB; {kind}: driver {more / MIB:.1f}, library {counted / MIB:.1f} MiB"
    )
    assert verdict == 0
    assert free_mib == LIMIT_MIB - ESTIMATE_MIB - counted // MIB
    assert more <= counted * (1 + ROUNDING)
    assert counted >= 1000 * MIB


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_memory_ends_at_the_limit(container: Preloaded, kind: str) -> None:
    done = container.python(f"{KINDS[kind]}\ncontext(); say(take({LIMIT_MIB}), take(3000), take(1000))")
    assert json.loads(done.stdout) == [OUT_OF_MEMORY, 0, OUT_OF_MEMORY]
    assert container.seen().cards[0].refusals >= 2


def test_a_killed_process_leaves_its_memory_to_others(container: Preloaded) -> None:
    with container.start("context(); say(alloc(2500)[0]); sys.stdin.read()") as app:
        assert line(app) == [0]
        assert json.loads(container.python("context(); say(alloc(1000)[0])").stdout) == [OUT_OF_MEMORY]
        app.kill()
        app.wait()
    assert json.loads(container.python("context(); say(alloc(2500)[0])").stdout) == [0]


async def test_the_driver_frees_memory_at_exec(container: Preloaded, driver: Driver) -> None:
    with container.start("context(); say(alloc(3000)[0]); os.read(0, 1); os.execvp('cat', ['cat'])") as app:
        assert app.stdin is not None
        assert line(app) == [0]
        assert await driver.bytes_of(app.pid) >= 3000 * MIB
        app.stdin.write(".[7]\n")
        app.stdin.flush()
        assert line(app) == [7]
        assert await driver.bytes_of(app.pid) == 0
        assert json.loads(container.python("context(); say(alloc(3000)[0])").stdout) == [0]
        app.kill()


async def test_a_forked_child_keeps_the_memory_of_its_ended_parent(
    container: Preloaded, driver: Driver, gpu: Gpu
) -> None:
    code = """
context(); alloc(3000)
child = os.fork()
if child == 0:
    sys.stdin.read(); os._exit(0)
say(child)
"""
    with container.start(code) as app:
        (child,) = line(app)
        app.wait()
        kept = await driver.bytes_of(app.pid)
        report(gpu, f"of an ended parent the driver keeps {kept >> 20} MiB while its child runs")
        assert kept >= 3000 * MIB
        assert json.loads(container.python("context(); say(left()[1])").stdout) == [LIMIT_MIB - ESTIMATE_MIB]
        app.communicate("")
    await until(lambda: not Path(f"/proc/{child}").exists())


async def test_memory_shared_by_ipc_is_counted_once(container: Preloaded) -> None:
    handle = "class Handle(c.Structure): _fields_ = [('bytes', c.c_ubyte * 64)]\n"
    gives = "context(); v, at = alloc(2000); h = Handle(); v = cuda.cuIpcGetMemHandle(c.byref(h), at)\n"
    with container.start(f"{handle}{gives}say(v, bytes(h).hex()); sys.stdin.read()") as app:
        assert app.stdout is not None
        verdict, text = json.loads(app.stdout.readline())
        assert verdict == 0
        before = container.seen().cards[0].used
        takes = f"at = c.c_uint64(); h = Handle.from_buffer_copy(bytes.fromhex({text!r})); context()\n"
        opened = "cuda.cuIpcOpenMemHandle_v2(c.byref(at), h, 1)"
        done = container.python(f"{handle}{takes}say({opened}, left()[1])")
        app.communicate("")
    verdict, free_mib = json.loads(done.stdout)
    assert verdict == 0
    assert free_mib == LIMIT_MIB - (before >> 20) - ESTIMATE_MIB


async def test_further_contexts_cost_what_the_first_one_costs(
    container: Preloaded, driver: Driver, gpu: Gpu
) -> None:
    code = """
say(context()); sys.stdin.readline()
made = c.c_void_p(); say(cuda.cuCtxCreate_v2(c.byref(made), 0, 0)); sys.stdin.readline()
"""
    with container.start(code) as app:
        assert app.stdin is not None
        line(app)
        first = await driver.bytes_of(app.pid)
        app.stdin.write("\n")
        app.stdin.flush()
        assert line(app) == [0]
        second = await driver.bytes_of(app.pid) - first
        app.kill()
    report(gpu, f"first context {first >> 20} MiB, second {second >> 20} MiB")
    assert 0 < second <= first


def test_nvml_shows_the_limit(container: Preloaded) -> None:
    assert json.loads(container.python(NVML).stdout) == [0, LIMIT_MIB]


def test_nvidia_smi_shows_the_limit(container: Preloaded) -> None:
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        done = container.run(query)
    except FileNotFoundError:
        pytest.skip("there is no nvidia-smi")
    assert done.stdout.split() == [str(LIMIT_MIB)]


def sample(container: Preloaded, *command: str) -> "subprocess.CompletedProcess[str]":
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return container.run(command, PATH=path, PYTHONPATH=str(ROOT))


def test_programs_of_the_samples_run(container: Preloaded) -> None:
    malloc = str(ROOT / "samples" / "bin" / "cuda_malloc")
    done = sample(container, malloc, f"-size={LIMIT_MIB}")
    assert "code=2(cudaErrorMemoryAllocation)" in done.stdout, done.stderr
    done = sample(container, malloc, "-size=3000")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_kernel_runs_with_launch_control(quarter: Preloaded) -> None:
    code = "from samples.driver import Driver; d = Driver(); d.open(0); d.launch(d.kernel(), 1000); d.wait()"
    done = sample(quarter, sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert quarter.seen().cards[0].spent > 0
