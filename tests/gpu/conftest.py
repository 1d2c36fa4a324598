"""Fixtures of tests on a real GPU. Without one each test is skipped with the reason."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from gpushare.errors import GpuError
from gpushare.isolation.limits import CardLimit
from gpushare.model.hardware import Gpu
from tests.support.fixtures.isolation import Preloaded, build, first_gpu, needs_compiler

PYTHON = os.environ.get("GPU_PYTHON", "python3")
"""A Python with frameworks."""
OUT_OF_MEMORY, ILLEGAL_ADDRESS = 2, 700
LIMIT_MIB = 4096
ESTIMATE_MIB = 600
"""Of a context: 518 MiB on an H200 with driver 580."""
TIMEOUT_S = 240
"""Of a program: the first import of a framework takes long."""

FAILING_KERNEL = r"""
image = b'''.version 6.0
.target sm_50
.address_size 64
.visible .entry bad() { .reg .b64 %a; mov.u64 %a, 16; st.global.u32 [%a], 1; ret; }
'''
module, bad = c.c_void_p(), c.c_void_p()
cuda.cuModuleLoadData(c.byref(module), image)
cuda.cuModuleGetFunction(c.byref(bad), module, b"bad")
cuda.cuLaunchKernel(bad, 1, 1, 1, 1, 1, 1, 0, stream, None, None)
"""
"""Lines of a client that start a kernel in ``stream`` which writes to an address that it does not have."""
FAILS = f"stream = None; context(){FAILING_KERNEL}say(cuda.cuCtxSynchronize())"
"""A client whose kernel fails, and the driver's answer."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(needs_compiler)


def needs(module: str) -> None:
    """Skip a test whose framework is missing."""
    code = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, check=False)  # noqa: S603 - a Python
    if done.returncode:
        pytest.skip(f"{PYTHON} has no {module}: set GPU_PYTHON to one that has")


@pytest.fixture(scope="session")
def gpu() -> Gpu:
    try:
        found = asyncio.run(first_gpu())
    except GpuError as reason:
        pytest.skip(f"needs a real NVIDIA GPU: {reason}")
    if found.mib < 2 * LIMIT_MIB:
        pytest.skip(f"needs a GPU with {2 * LIMIT_MIB} MiB, {found.model} has {found.mib}")
    return found


@pytest.fixture(scope="session")
def built(gpu: Gpu, tmp_path_factory: pytest.TempPathFactory) -> Preloaded:
    del gpu  # without a GPU nothing is built
    folder = tmp_path_factory.mktemp("container")
    return Preloaded(folder, build(tmp_path_factory.mktemp("library"), folder))


def _limited(container: Preloaded, gpu: Gpu, core_percent: int = 0) -> Preloaded:
    container.timeout_s = TIMEOUT_S
    container.limit(CardLimit(gpu.uuid, gpu.mib, LIMIT_MIB, gpu.mib, ESTIMATE_MIB, core_percent))
    return container


@pytest.fixture
def container(built: Preloaded, gpu: Gpu) -> Preloaded:
    return _limited(built, gpu)


@pytest.fixture
def others(gpu: Gpu, tmp_path: Path) -> Preloaded:
    """A second container, with three quarters of the GPU's time."""
    folder = tmp_path / "other"
    folder.mkdir()
    return _limited(
        Preloaded(folder, build(tmp_path / "library", folder)).with_launches(), gpu, core_percent=75
    )


@pytest.fixture
def quarter(built: Preloaded, gpu: Gpu) -> Preloaded:
    return _limited(built.with_launches(), gpu, core_percent=25)
