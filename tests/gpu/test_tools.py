"""A program with a static CUDA runtime, alone and under NVIDIA's debugger, checker and profiler."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from tests.gpu.conftest import LIMIT_MIB, OUT_OF_MEMORY
from tests.support.fixtures.isolation import Preloaded

CUDA = "/usr/local/cuda/bin"
TOOLS = {
    "compute-sanitizer": ["--report-api-errors", "no", "--error-exitcode", "1"],
    "cuda-gdb": ["-batch", "-ex", "run", "--args"],
    "ncu": ["--clock-control", "none", "--launch-count", "1"],
}
RUNTIME = """
#include <cstdio>
#include <cuda_runtime.h>
__global__ void fill(int *to, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) to[i] = i; }
int main() {
    int *a = nullptr, *b = nullptr, *m = nullptr, *s = nullptr, last = 0;
    size_t left, total;
    const int n = 1 << 20;
    int first = cudaMalloc(&a, 2000u << 20), second = cudaMalloc(&b, (size_t)3000 << 20);
    fill<<<n / 256, 256>>>(a, n);
    int copied = cudaMemcpy(&last, a + n - 1, sizeof last, cudaMemcpyDeviceToHost);
    int managed = cudaMallocManaged(&m, (size_t)3000 << 20);
    int async = cudaMallocAsync(&s, (size_t)3000 << 20, 0);
    cudaMemGetInfo(&left, &total);
    printf("[%d, %d, %d, %d, %d, %d, %zu]\\n", first, second, copied, last, managed, async, total >> 20);
}
"""
EXPECTED = [0, OUT_OF_MEMORY, 0, (1 << 20) - 1, OUT_OF_MEMORY, OUT_OF_MEMORY, LIMIT_MIB]


def found(tool: str) -> str:
    path = shutil.which(tool) or shutil.which(tool, path=CUDA)
    if path is None:
        pytest.skip(f"there is no {tool}")
    return path


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = found("nvcc")
    folder = tmp_path_factory.mktemp("program")
    source, made = folder / "runtime.cu", folder / "runtime"
    source.write_text(RUNTIME)
    subprocess.run([compiler, "-arch=native", "-o", made, source], check=True, capture_output=True)  # noqa: S603 - CUDA's
    return str(made)


def test_a_program_with_a_static_runtime_ends_at_the_limit(container: Preloaded, program: str) -> None:
    assert json.loads(container.run([program]).stdout) == EXPECTED


@pytest.mark.parametrize("tool", TOOLS)
def test_it_ends_at_the_limit_under_a_tool(quarter: Preloaded, program: str, tool: str) -> None:
    command = [found(tool), *TOOLS[tool], program]
    alone = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - NVIDIA's
    if alone.returncode or not results(alone.stdout):
        pytest.skip(f"{tool} does not work without the library: {(alone.stderr or alone.stdout)[-300:]}")
    done = quarter.run(command)
    assert results(done.stdout) == [EXPECTED], done.stdout + done.stderr
    assert done.returncode == 0


def results(output: str) -> Sequence[list[int]]:
    """What the program printed, also in the middle of a line of the debugger."""
    return [json.loads(found) for found in re.findall(r"\[0, [\d, ]+\]", output)]
