"""The stub CUDA driver counts processes of all PID namespaces, as a driver does."""

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.cuda import CudaCard, CudaStub
from tests.support.fixtures.isolation import PRELUDE
from tests.support.waiting import until

pytestmark = pytest.mark.needs("compiler", "root", "unshare")

ROOT = Path(__file__).parents[3]
MALLOC = str(ROOT / "samples" / "bin" / "cuda_malloc")
MIB = 1 << 20
CONTEXT_MIB = 100


@pytest.fixture
def stub(tmp_path: Path) -> CudaStub:
    cards = [CudaCard("GPU-5d2a7a36-2f0c-4a3b-9c1e-0123456789ab", 8000, CONTEXT_MIB)]
    return CudaStub(tmp_path / "cuda", cards=cards)


def in_a_namespace(*words: str) -> list[str]:
    unshare = shutil.which("unshare")
    assert unshare
    return [unshare, "--pid", "--fork", "--kill-child", "--mount-proc", *words]


def environment(stub: CudaStub) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": str(ROOT), **stub.env}


@contextmanager
def holding(stub: CudaStub, mib: int) -> Iterator["subprocess.Popen[str]"]:
    """A container with a process that holds that much memory."""
    command = in_a_namespace(MALLOC, f"-size={mib}", "-hold")
    with subprocess.Popen(command, env=environment(stub), stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout
            assert any("Holding" in line for line in process.stdout)
            yield process
        finally:
            process.kill()


async def test_containers_share_the_memory_of_a_gpu_and_free_it_when_they_end(stub: CudaStub) -> None:
    with holding(stub, 3000) as first, holding(stub, 3000):
        assert stub.used(0) == 2 * (3000 + CONTEXT_MIB) * MIB
        third = in_a_namespace(MALLOC, "-size=3000")
        done = subprocess.run(third, env=environment(stub), capture_output=True, text=True, check=False)  # noqa: S603, ASYNC221
        assert "code=2(cudaErrorMemoryAllocation)" in done.stdout

        first.kill()
        await until(lambda: stub.used(0) == (3000 + CONTEXT_MIB) * MIB)
        done = subprocess.run(third, env=environment(stub), capture_output=True, text=True, check=False)  # noqa: S603, ASYNC221
        assert done.returncode == 0, done.stdout


def test_a_process_in_a_container_has_its_pid_of_the_host(stub: CudaStub) -> None:
    with holding(stub, 1000):
        (user,) = stub.users()
        assert MALLOC in Path(f"/proc/{user.pid}/cmdline").read_text()
        assert user.used[0] == (1000 + CONTEXT_MIB) * MIB


def test_managed_memory_is_counted_until_it_is_freed(stub: CudaStub) -> None:
    code = """
at = c.c_uint64()
context(); alloc(10); cuda.cuMemAllocManaged(c.byref(at), c.c_size_t(1000 * MIB), 1); say(0)
for _ in sys.stdin: say(free(at))
"""
    command = [sys.executable, "-S", "-c", PRELUDE + code]
    process = subprocess.Popen(  # noqa: S603
        command, env=environment(stub), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        (user,) = stub.users()
        assert (user.used[0] // MIB, user.managed[0] // MIB) == (1010 + CONTEXT_MIB, 1000)
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        (user,) = stub.users()
        assert (user.used[0] // MIB, user.managed[0]) == (10 + CONTEXT_MIB, 0)
        process.stdin.close()


def test_a_process_can_wait_until_the_gpu_has_run_its_kernels(stub: CudaStub) -> None:
    source = """
        import time
        from samples.driver import Driver
        driver = Driver()
        driver.open(0)
        began = time.monotonic()
        driver.launch(driver.kernel(), 50_000_000)
        driver.wait()
        print(time.monotonic() - began)
    """
    command = [sys.executable, "-c", textwrap.dedent(source)]
    done = subprocess.run(command, env=environment(stub), capture_output=True, text=True, check=True)  # noqa: S603
    assert float(done.stdout) >= 0.05
