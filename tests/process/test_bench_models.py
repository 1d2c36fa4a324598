"""The model benchmark without a GPU: the command says what it needs, and an arm that fails ends no other."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gpushare.model.hardware import Gpu
from testbed.cuda import CudaStub
from testbed.nvml import GpuProcess, NvmlStub
from testbed.nvml import card as nvml_card
from tests.bench.models.arms import SHORTEST_S, selected
from tests.bench.models.results import Run
from tests.bench.models.running import Bench, measure
from tests.support.fixtures.isolation import PRELUDE, ROOT, UUID, Preloaded, build, card, needs_compiler
from tests.support.fixtures.nvml import load

GPU = Gpu(index=0, uuid=UUID, model="NVIDIA H100 80GB HBM3", mib=81079)
SECONDS_FOR_ONE_ROUND = 100.0


def bench(folder: Path, python: str = sys.executable) -> Bench:
    """Servers that only wait: without PyTorch and without a GPU, with our library for memory."""
    containers = []
    for name in ("a", "b"):
        (folder / name).mkdir()
        containers.append(Preloaded(folder / name, build(folder / name / "build", folder / name)))
    return Bench(
        GPU,
        python,
        folder,
        containers,
        "tiny",
        slots=3,
        seed=1,
        device="none",
        step_s=0.02,
        longest_s=SHORTEST_S,
    )


async def measured(folder: Path, seconds: float, *names: str, python: str = sys.executable) -> Sequence[Run]:
    begun, seen = time.monotonic(), []
    found = await measure(
        bench(folder, python), selected(names), 1, begun + seconds, lambda runs: seen.append(len(runs))
    )
    assert seen == list(range(1, len(found) + 1))
    return found


@needs_compiler
async def test_an_arm_that_fails_has_its_reason_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = os.environ["PATH"]
    made = bench(tmp_path)
    monkeypatch.setenv("PATH", "/nonexistent")  # a machine without MPS
    begun = time.monotonic()
    one, two, mps = await measure(
        made, selected(["dedicated", "limit", "MPS"]), 1, begun + SECONDS_FOR_ONE_ROUND, lambda _: None
    )
    monkeypatch.setenv("PATH", tools)
    assert [len(each.servers) for each in (one, two, mps)] == [1, 2, 0]
    # Three clients; every token of all three takes 20 ms or more.
    assert 0 < one.rate <= 150
    assert all(0 < server.rate <= 150 and server.firsts_s for server in two.servers)
    assert "nvidia-cuda-mps-control" in mps.failure


@needs_compiler
async def test_a_server_that_ends_is_a_failure_with_its_last_line(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho first >&2\necho 'no memory is left' >&2\nexit 1\n")
    script.chmod(0o755)
    (run,) = await measured(tmp_path, SECONDS_FOR_ONE_ROUND, "dedicated", python=str(script))
    assert run.failure == "a server ended before it had ready: first no memory is left"


@needs_compiler
async def test_no_arm_starts_without_time_for_it(tmp_path: Path) -> None:
    assert await measured(tmp_path, 10, "dedicated") == []


LAUNCHES = f"""
import threading
def work():
    names = {{}}
    exec({PRELUDE!r} + "context()", names)
    while True:
        names["launch"](5_000_000)
        names["cuda"].cuCtxSynchronize()
threading.Thread(target=work, daemon=True).start()
"""


def launching(folder: Path, env: Mapping[str, str]) -> str:
    """A Python whose programs also start kernels of 5 ms on the stub driver, in a thread."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(LAUNCHES)
    variables = " ".join(f"{name}='{value}'" for name, value in env.items())
    script = folder / "launching-python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{site}:$PYTHONPATH" {variables} exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return str(script)


def children() -> list[int]:
    """The PIDs of this process's children."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


async def show_children(stub: NvmlStub) -> None:
    """Let the driver list the programs of the bench, each with half of the GPU's time."""
    while True:
        stub.processes(0, [GpuProcess(pid, used_mib=600, sm=50) for pid in children()])
        await asyncio.sleep(0.5)


@needs_compiler
async def test_launch_rates_are_set_while_servers_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = load(NvmlStub(tmp_path / "nvml", era=580, cards=[nvml_card("H100", uuid=UUID)]), monkeypatch)
    cuda = CudaStub(tmp_path / "cuda", cards=[card(total_mib=GPU.mib)])
    python = launching(tmp_path, cuda.env)
    listing = asyncio.create_task(show_children(nvml))
    try:
        (run,) = await measured(tmp_path, SECONDS_FOR_ONE_ROUND, "limit, 50/50", python=python)
    finally:
        listing.cancel()
    assert run.failure == ""
    assert len(run.servers) == 2


@needs_compiler
async def test_an_arm_whose_launch_rates_were_not_set_has_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that does not share the PID namespace of the host."""
    load(NvmlStub(tmp_path / "nvml", era=580, cards=[nvml_card("H100", uuid=UUID)]), monkeypatch)
    python = launching(tmp_path, CudaStub(tmp_path / "cuda", cards=[card(total_mib=GPU.mib)]).env)
    (run,) = await measured(tmp_path, SECONDS_FOR_ONE_ROUND, "limit, 50/50", python=python)
    assert "has no launch rate; the driver may not list it" in run.failure


def refusal(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "tests.bench.models", *arguments],
        cwd=ROOT,
        env={**os.environ, "GPU_PYTHON": "/nonexistent/python"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_a_gpu_the_command_says_what_it_needs() -> None:
    done = refusal()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: this needs a physical GPU: make bench PART=models GPU=1\n"


def test_an_unknown_arm_is_refused() -> None:
    done = refusal("--gpu", "--arm", "fast")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: no arm is named 'fast'")
