"""Compute shares of programs that do not repeat one kernel: real library, the agent's prices, stub driver."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from testbed.cuda import CudaStub
from tests.support.fixtures.compute_programs import (
    PROMPT_S,
    SERVER,
    STEP_NS,
    rank,
    regulated,
    reported,
    running,
    work_of,
)
from tests.support.fixtures.isolation import Container, Regulator, card, needs_compiler, share

pytestmark = needs_compiler

SAMPLES_S = 0.5
OTHER = "GPU-00000000-1111-2222-3333-555555555555"
PERCENT = 25
WINDOW_S, STAYS, MOST = 1.5, 4, 30
"""The length of a measurement, how many in a row count, and how many are made."""


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
    with (
        running((both, codes[0]), (both, codes[1])),
        regulated(SAMPLES_S, Regulator(both, contended=contended)),
    ):
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
    with running(*zip(pair, codes, strict=True)), regulated(SAMPLES_S, *regulators):
        assert_settles(lambda: work_of(pair[0], 0), 10 if contended else PERCENT - 5)


@pytest.mark.parametrize("contended", [pytest.param(False, marks=pytest.mark.short), True])
def test_a_prompt_does_not_stall_a_server_and_does_not_open_its_limit(
    launcher: Container, *, contended: bool
) -> None:
    """A step by a graph costs other tokens than the kernels of a prompt.

    Medians, because a loaded machine may stop any program for a second.
    """
    launcher.limit(share(4, 15, core_percent=PERCENT))
    with (
        running((launcher, SERVER)) as (server,),
        regulated(SAMPLES_S, Regulator(launcher, contended=contended)),
    ):
        turns = [reported(server) for _ in range(4)]
    prompts, steps = zip(*turns, strict=True)
    assert median(prompts) < 2 * PROMPT_S / (PERCENT / 100), turns
    assert 20 <= 100 * median(steps) * 0.02 <= 30, turns
