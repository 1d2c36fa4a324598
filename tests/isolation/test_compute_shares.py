"""Compute shares of programs that do not repeat one kernel: real library, the agent's prices, stub driver."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from testbed.cuda import CudaStub
from tests.fixtures.isolation import Container, Regulator, card, needs_compiler, share

pytestmark = needs_compiler

SAMPLES_S = 0.5
OTHER = "GPU-00000000-1111-2222-3333-555555555555"
PERCENT = 25
WINDOW_S, STAYS, MOST = 1.5, 4, 30
"""The length of a measurement, how many in a row count, and how many are made."""

KERNELS = """
import time
def kernel(ns, threads):
    return cuda.cuLaunchKernel(c.c_void_p(ns), max(1, threads // 256), 1, 1, 256, 1, 1, 0, None, None, None)
"""
RANK = (
    KERNELS
    + """
class Collective(c.Structure):
    _fields_ = [("ns", c.c_uint64), ("path", c.c_char_p), ("rank", c.c_uint), ("ranks", c.c_uint)]
meeting = Collective(20_000, MEETING.encode(), RANK, 2)
parameters = (c.c_void_p * 1)(c.cast(c.pointer(meeting), c.c_void_p))
primary = c.c_void_p()
cuda.cuDevicePrimaryCtxRetain(c.byref(primary), DEVICE)
cuda.cuCtxSetCurrent(primary)
say("ready")
while True:
    kernel(2_000_000, 2_000_000)
    cuda.cuLaunchKernel(c.c_void_p(2**64 - 2), 48, 1, 1, 256, 1, 1, 0, None, parameters, None)
"""
)
STEP_NS = 2_020_000


@contextmanager
def regulated(*regulators: Regulator) -> Iterator[None]:
    """Samples in the background, as the node agent takes them, but more often."""
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(SAMPLES_S):
            for each in regulators:
                each.step()

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def running(*programs: tuple[Container, str]) -> Iterator[list["subprocess.Popen[str]"]]:
    """Programs that have said that they are ready."""
    with ExitStack() as started:
        processes = []
        for container, code in programs:
            processes.append(started.enter_context(container.start(code)))
            started.callback(processes[-1].kill)
        assert [reported(each) for each in processes] == [["ready"]] * len(programs)
        yield processes


def reported(program: "subprocess.Popen[str]") -> Any:
    assert program.stdout is not None
    return json.loads(program.stdout.readline())


def rank(device: int, number: int, meeting: Path) -> str:
    return f"DEVICE, RANK, MEETING = {device}, {number}, {str(meeting)!r}\n{RANK}"


def work_of(rank: "Container", card: int) -> float:
    """The steps that a rank has launched on a GPU: kernels of 2 000 000 threads and their collective."""
    return sum(rank.seen().cards[card].work) / (2_000_000 // 256 * 256 + 48 * 256)


def percent_of_work(steps: Callable[[], float]) -> float:
    """The percentage of a GPU's time that the steps of some seconds take without their waits."""
    begin, before = time.monotonic(), steps()
    time.sleep(WINDOW_S)  # the length of a measurement, not a wait for something
    return 100 * (steps() - before) * STEP_NS / 1e9 / (time.monotonic() - begin)


def assert_settles(steps: Callable[[], float], least: float) -> None:
    """The work settles at the share, or at what is tolerated, and stays there."""
    found: list[float] = []
    while not all(least <= each <= PERCENT + 5 for each in found[-STAYS:]) or len(found) < STAYS:
        assert len(found) < MOST, found
        found.append(percent_of_work(steps))


@pytest.mark.parametrize("contended", [False, pytest.param(True, marks=pytest.mark.short)])
def test_a_program_on_two_gpus_that_wait_for_each_other_keeps_its_share(
    files: Path, library: Path, tmp_path: Path, *, contended: bool
) -> None:
    """The GPU that is ahead waits in a kernel, and NVML counts that as busy."""
    stub = CudaStub(tmp_path / "stub", cards=[card(), card(uuid=OTHER)])
    both = Container(files, library, stub).with_launches()
    limit = share(4, 15, core_percent=PERCENT)
    both.limit(limit, replace(limit, uuid=OTHER))
    codes = [rank(number, number, tmp_path / "meeting") for number in range(2)]
    with running((both, codes[0]), (both, codes[1])), regulated(Regulator(both, contended=contended)):
        assert_settles(lambda: work_of(both, 0), PERCENT - 5)


@pytest.mark.parametrize("contended", [False, True])
def test_ranks_in_two_containers_do_not_come_to_a_standstill(
    files: Path, library: Path, other: tuple[Path, Path], tmp_path: Path, *, contended: bool
) -> None:
    """Beside other programs, samples do not show which of them waits for the other: they may get less."""
    pair = [
        Container(*of, CudaStub(tmp_path / name, cards=[card()])).with_launches()
        for name, of in (("a", (files, library)), ("b", other))
    ]
    for each in pair:
        each.limit(share(4, 15, core_percent=PERCENT))
    codes = [rank(0, number, tmp_path / "meeting") for number in range(2)]
    regulators = [Regulator(each, contended=contended) for each in pair]
    with running(*zip(pair, codes, strict=True)), regulated(*regulators):
        assert_settles(lambda: work_of(pair[0], 0), 10 if contended else PERCENT - 5)


SERVER = (
    KERNELS
    + """
context()
step = c.c_void_p(20_000_000)
def decode(seconds):
    steps, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        cuda.cuGraphLaunch(step, None)
        cuda.cuCtxSynchronize()
        steps += 1
    return steps / seconds
def prompt():
    begin = time.monotonic()
    for layer in range(32):
        for i in range(4): kernel(200_000, 300_000); kernel(20_000, 1_000_000)
    cuda.cuCtxSynchronize()
    return time.monotonic() - begin
say("ready")
decode(6)
for turn in range(4):
    say(prompt(), decode(2))
"""
)
PROMPT_S = 32 * 4 * 220_000 / 1e9


@pytest.mark.parametrize("contended", [pytest.param(False, marks=pytest.mark.short), True])
def test_a_prompt_does_not_stall_a_server_and_does_not_open_its_limit(
    launcher: Container, *, contended: bool
) -> None:
    """A step by a graph costs other tokens than the kernels of a prompt."""
    launcher.limit(share(4, 15, core_percent=PERCENT))
    with running((launcher, SERVER)) as (server,), regulated(Regulator(launcher, contended=contended)):
        turns = [reported(server) for _ in range(4)]
    assert max(seconds for seconds, _ in turns) < 2 * PROMPT_S / (PERCENT / 100)
    steps = [steps for _, steps in turns]
    assert 20 <= 100 * mean(steps) * 0.02 <= 30
