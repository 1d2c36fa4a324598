"""The programs of the image ``samples`` on a stub of the driver."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from devkit.ports import free_ports
from testbed.cuda import CudaCard, CudaStub

pytestmark = pytest.mark.needs("compiler")

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "samples" / "bin"
UUID = "GPU-5d2a7a36-2f0c-4a3b-9c1e-0123456789ab"
TOTAL_MIB = 4301


@pytest.fixture
def stub(tmp_path: Path) -> CudaStub:
    return CudaStub(tmp_path, cards=[CudaCard(UUID, TOTAL_MIB, name="Tesla V100-SXM2-16GB")])


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Like the image: the folder of this interpreter first, and the programs' package."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": str(ROOT), **more}


def cuda_malloc(stub: CudaStub | None, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAMS / "cuda_malloc"), *words]
    env = environment({**(stub.env if stub else {}), **more})
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603


def test_an_allocation_within_the_limit_has_the_output_of_the_tutorial(stub: CudaStub) -> None:
    done = cuda_malloc(stub, "-size=3072")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:4] == [
        "gpu_cuda_malloc starting...",
        "Detected 1 CUDA Capable device(s)",
        "",
        'Device 0: "Tesla V100-SXM2-16GB"',
    ]
    assert f"{TOTAL_MIB} MBytes ({TOTAL_MIB << 20} bytes)" in done.stdout
    assert done.stdout.endswith("Try to malloc 3072 MBytes memory on GPU 0\n")


def test_an_allocation_beyond_the_limit_is_code_2_and_fails(stub: CudaStub) -> None:
    done = cuda_malloc(stub, "-size=6144", "-hold")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == (
        "CUDA error at cgpu_cuda_malloc.cu:119 code=2(cudaErrorMemoryAllocation) "
        '"cudaMalloc( (void**)&dev_c, malloc_size)"'
    )


@pytest.mark.parametrize("words", [["-size=1", "-size=2"], ["-size=x"], ["-size=1", "-sise=2"]])
def test_wrong_usage_is_explained(stub: CudaStub, words: list[str]) -> None:
    done = cuda_malloc(stub, *words)
    usage = "usage: cuda_malloc -size=<MiB> [-hold], or SIZE_MIB=<MiB> cuda_malloc [-hold]\n"
    assert (done.returncode, done.stderr) == (2, usage)


@pytest.mark.parametrize(
    ("variables", "mib"),
    [
        ({"SIZE_MIB": "6144", "ALIYUN_COM_GPU_MEM_CONTAINER": "4"}, 6144),
        ({"ALIYUN_COM_GPU_MEM_CONTAINER": "4", "ALIYUN_COM_GPU_MEM_DEV": "15"}, 3072),
        ({"ALIYUN_COM_GPU_MEM_CONTAINER": "1", "ALIYUN_COM_GPU_MEM_DEV": "22"}, 768),
        ({"ALIYUN_COM_GPU_MEM_CONTAINER": "4096", "ALIYUN_COM_GPU_MEM_DEV": "16276"}, 3072),
        ({}, 3072),
    ],
    ids=["set", "ACK tutorial", "GPU sharing page", "units of a MiB", "whole GPU"],
)
def test_without_a_size_the_program_uses_what_fits_the_documents(
    stub: CudaStub, variables: dict[str, str], mib: int
) -> None:
    assert f"Try to malloc {mib} MBytes memory on GPU 0" in cuda_malloc(stub, **variables).stdout


@pytest.mark.needs("no-driver")
def test_without_a_driver_the_reason_is_printed() -> None:
    done = cuda_malloc(None, "-size=1")
    assert done.returncode == 3
    assert "libcuda.so.1" in done.stderr
    assert "the container has no GPU" in done.stderr


@contextmanager
def running(stub: CudaStub, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A program that goes on; the first line of its output says that it is ready."""
    command = [str(PROGRAMS / words[0]), *words[1:]]
    with subprocess.Popen(command, env=environment(stub.env), stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            yield process
        finally:
            process.kill()


def line_with(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    return next(line for line in process.stdout if text in line)


def test_memory_is_held_until_the_program_ends(stub: CudaStub) -> None:
    with running(stub, "cuda_malloc", "-size=3072", "-hold") as holding:
        line_with(holding, "Holding the memory")
        assert stub.used(0) == 3072 << 20
        holding.send_signal(signal.SIGTERM)
        assert holding.wait(30) == 0
    assert stub.used(0) == 0


def test_each_request_keeps_the_gpu_busy_for_its_time(stub: CudaStub) -> None:
    port = free_ports(1)[0]
    with running(stub, "inference_server", f"--port={port}", "--work-ms=20") as server:
        line_with(server, f"listens on port {port}")
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
                assert json.load(answer) == {"intent": "weather", "gpu_ms": 20}
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as answer:
            assert answer.status == 200
        assert stub.busy_ns(0) == {server.pid: 3 * 20_000_000}
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0


def test_a_model_that_does_not_fit_is_an_error_with_its_code(stub: CudaStub) -> None:
    command = [str(PROGRAMS / "inference_server"), "--size=8192"]
    env = environment(stub.env)
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    assert (done.returncode, done.stderr) == (1, "cuMemAlloc_v2 failed with code 2\n")
