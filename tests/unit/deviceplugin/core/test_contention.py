"""Two busy containers on one GPU, paced by the agent's code: a FAKE of time slices, NVML's looks and buckets.

It behaves as an H200 with driver 580 did: kernels of both containers take turns, and NVML sees one of them,
or none, at eight moments of a second, and leaves out the other.
"""

import random
from dataclasses import dataclass, field
from statistics import mean

import pytest

from gpushare.deviceplugin.core.pacing import ContainerPacing, pace
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import CardUse, Region
from gpushare.isolation.region_layout import KINDS
from gpushare.model.readings import IDLE, Load, ProcessReading

SECOND = 10**9
STEP = 500_000
"""Of the simulation, in ns."""
KERNEL, THREADS = 2_000_000, 32768
"""A kernel: its GPU time in ns, and its threads."""
LOOKS = 8
WINDOW_S = 1.5
"""The agent reads the samples of so many seconds."""
SETTLE_S, MEASURE_S = 10, 60


@dataclass
class Program:
    """It starts a kernel when the last one has ended, and waits for tokens as ``pace.c`` does."""

    percent: int
    rate: int = 0
    price: float = 0
    """Tokens for a thread."""
    work: int = 0
    spent: float = 0
    granted: float = 0
    left: float = 0
    """Of the running kernel, in ns."""
    busy: float = 0
    pacing: ContainerPacing = field(default_factory=ContainerPacing)

    def runs(self) -> bool:
        """Whether it has a kernel on the GPU in this step."""
        most = self.spent + self.rate / 10
        self.granted = min(most, self.granted + self.rate * STEP / SECOND) if self.rate else most
        if self.left <= 0 and (not self.rate or self.granted > self.spent):
            self.spent, self.left = self.spent + THREADS * self.price, KERNEL
            self.work += THREADS
        return self.left > 0

    def use(self, time_ns: float) -> None:
        used = min(time_ns, self.left)
        self.left, self.busy = self.left - used, self.busy + used

    def poll(self, reading: ProcessReading, now_ns: int, *, contended: bool) -> None:
        """What the agent does each second."""
        limit = CardLimit("GPU-0", 81079, 4, 79, core_percent=self.percent)
        work = (self.work, *[0] * (KINDS - 1))
        region = Region((CardUse("GPU-0", 0, 0, 0, 0, rate=self.rate, work=work),), ())
        uuids = ["GPU-0"] if contended else []
        self.pacing, _ = pace([limit], region, [{reading.pid: reading}], now_ns, self.pacing, uuids)
        (rate,) = self.pacing.rates
        self.rate, self.price = rate.rate, rate.learned.prices.get(0, 0)


def parts(percents: tuple[int, int], seed: int) -> list[float]:
    """The first container's part of the work in each second, in percent."""
    source = random.Random(seed)
    programs = [Program(each) for each in percents]
    samples: list[tuple[int, list[float]]] = []
    seen, found, before = [0, 0], [], [0.0, 0.0]
    for step in range(1, (SETTLE_S + MEASURE_S) * SECOND // STEP):
        now_ns = step * STEP
        active = [each for each in programs if each.runs()]
        for each in active:
            each.use(STEP / len(active))
        if now_ns % (SECOND // LOOKS) == 0 and active:
            seen[programs.index(source.choice(active))] += 1
        if now_ns % SECOND == SECOND // 2:
            samples.append((now_ns, [100 * each / LOOKS for each in seen]))
            seen = [0, 0]
        if now_ns % SECOND == 0:
            poll(programs, samples, now_ns)
            done = [each.busy - last for each, last in zip(programs, before, strict=True)]
            found.append(100 * done[0] / sum(done))
            before = [each.busy for each in programs]
    return found[SETTLE_S:]


def poll(programs: list[Program], samples: list[tuple[int, list[float]]], now_ns: int) -> None:
    recent = [loads for at_ns, loads in samples if at_ns > now_ns - WINDOW_S * SECOND]
    for pid, program in enumerate(programs):
        # NVML leaves a program out of a sample that did not see it, and the mean is of those that did.
        own = [loads[pid] for loads in recent if loads[pid]]
        load = Load(round(mean(own)), 0) if own else IDLE
        reading = ProcessReading(pid, load=load, sampled=any(map(sum, recent)))
        program.poll(reading, now_ns, contended=any(loads[1 - pid] for loads in recent))


@pytest.mark.parametrize("percents", [(25, 75), (10, 90), (50, 50)])
def test_two_busy_containers_get_their_shares_of_the_work(percents: tuple[int, int]) -> None:
    runs = [parts(percents, seed) for seed in range(4)]
    assert mean(map(mean, runs)) == pytest.approx(percents[0], rel=0.2)
    lowest = min(mean(run[at : at + 10]) for run in runs for at in range(len(run) - 10))
    assert lowest > percents[0] / 4
