"""``make bench PART=compute-shares``: what programs with a compute share of 25 % get, on the stub driver.

The work is the GPU time without the waits of kernels for another GPU, in each second after ten. The bench
replaces the node agent and samples once a second, alone and as if other programs used the GPUs too.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import mean, median, pstdev
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click

from testbed.cuda import CudaStub
from tests.support.fixtures.compute_programs import (
    BURSTY,
    PROMPT_S,
    SERVER,
    STEP_NS,
    UNIFORM,
    rank,
    regulated,
    reported,
    running,
    work_of,
)
from tests.support.fixtures.isolation import Container, Regulator, build, card, share
from tests.support.machine import machine

PERCENT = 25
SETTLE_S, MEASURE_S = 10, 15
PROMPTS = 4
OTHER = "GPU-00000000-1111-2222-3333-555555555555"
LIMIT = share(4, 15, core_percent=PERCENT)


class Bench(NamedTuple):
    """Containers on stub drivers, and whether other programs use their GPUs too."""

    containers: tuple[Container, Container]
    folder: Path
    contended: bool


@click.command()
def main() -> None:
    """Print the results as Markdown."""
    click.echo(f"{machine()}\n")
    click.echo(
        f"Percent of a GPU's time in each second: mean and standard deviation; {PERCENT} are allocated.\n"
    )
    click.echo("| program | alone | beside others |\n|---|---|---|")
    for name, run in PROGRAMS.items():
        click.echo(f"| {name} | {' | '.join(_measured(run, contended=each) for each in (False, True))} |")


def _measured(run: Callable[[Bench], str], *, contended: bool) -> str:
    with TemporaryDirectory() as name:
        folder = Path(name)
        one, two = (_container(folder / each) for each in ("one", "two"))
        return run(Bench((one, two), folder, contended))


def _container(folder: Path) -> Container:
    folder.mkdir()
    cards = [card(), card(uuid=OTHER)]
    container = Container(folder, build(folder / "build", folder), CudaStub(folder / "stub", cards=cards))
    container = container.with_launches()
    container.limit(LIMIT, replace(LIMIT, uuid=OTHER))
    return container


def _of_code(code: str) -> Callable[[Bench], str]:
    def run(bench: Bench) -> str:
        container = bench.containers[0]
        regulator = Regulator(container, contended=bench.contended)
        with running((container, code)), regulated(1, regulator):
            return _percents(lambda: regulator.busy_ns(0))

    return run


def _two_gpus(bench: Bench) -> str:
    container, meeting = bench.containers[0], bench.folder / "meeting"
    programs = [(container, rank(number, number, meeting)) for number in range(2)]
    with running(*programs), regulated(1, Regulator(container, contended=bench.contended)):
        return _percents(lambda: STEP_NS * work_of(container, 0))


def _two_containers(bench: Bench) -> str:
    meeting = bench.folder / "meeting"
    programs = [(each, rank(0, number, meeting)) for number, each in enumerate(bench.containers)]
    regulators = [Regulator(each, contended=bench.contended) for each in bench.containers]
    with running(*programs), regulated(1, *regulators):
        return _percents(lambda: STEP_NS * work_of(bench.containers[0], 0))


def _server(bench: Bench) -> str:
    container = bench.containers[0]
    regulator = Regulator(container, contended=bench.contended)
    with running((container, SERVER)) as (server,), regulated(1, regulator):
        turns = [reported(server) for _ in range(PROMPTS)]
    seconds = [each for each, _ in turns]
    steps = [100 * 0.02 * each for _, each in turns]
    fair_s = PROMPT_S * 100 / PERCENT
    prompts = f"a prompt {median(seconds):.2f} s, at most {max(seconds):.2f} ({PERCENT} %: {fair_s:.2f})"
    return f"{mean(steps):.1f} ± {pstdev(steps):.1f}; {prompts}"


def _percents(worked_ns: Callable[[], float]) -> str:
    """The work of each second after the program has settled."""
    time.sleep(SETTLE_S)
    found, before = [], worked_ns()
    for _ in range(MEASURE_S):
        begun = time.monotonic()
        time.sleep(1)
        after = worked_ns()
        found.append(100 * (after - before) / 1e9 / (time.monotonic() - begun))
        before = after
    return f"{mean(found):.1f} ± {pstdev(found):.1f}"


PROGRAMS: dict[str, Callable[[Bench], str]] = {
    "one kernel of 2 ms, again and again": _of_code(UNIFORM),
    "bursts of kernels of 0.5 and 1 ms": _of_code(BURSTY),
    "two GPUs of a container that meet after each step": _two_gpus,
    "the same in two containers": _two_containers,
    "server: steps by a graph, prompts by kernels": _server,
}


if __name__ == "__main__":
    main()
