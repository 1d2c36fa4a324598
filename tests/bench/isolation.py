"""``make bench PART=isolation``: the cost of the preloaded library, compared with the driver alone.

The driver is a stub, a fake whose calls take almost no time, so the results show the cost of the library;
with ``--gpu`` it is the driver of this machine. Runs with and without the library alternate; their medians
are reported. Limit and region are in memory, as on a node. Compute shares are measured by the counters of
the stub; the bench replaces the node agent.
"""

import asyncio
import os
import subprocess
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TypeVar

import click

from gpushare.errors import GpuError
from gpushare.isolation import region
from gpushare.isolation.limits import CardLimit
from testbed.cuda import CudaStub
from tests.support.fixtures.isolation import Container, Preloaded, Regulator, build, card, first_gpu, share
from tests.support.machine import machine

SOURCE = Path(__file__).parent / "native" / "isolation.c"
ROUNDS = 15
ROUND_S = 0.3
MANY = 16
MANY_ROUNDS = 5
SHARES_S = 10.0
PLENTY = 10**15
NONE = {"LD_PRELOAD": ""}
BUSY = "context(); say(launch(1))\nwhile True: launch(2_000_000)"
AnyContainer = TypeVar("AnyContainer", bound=Preloaded)

CONTEXT_MIB = 600
GPU_ROUNDS, STEP_ROUNDS = 7, 3
"""Fewer, because a context of a GPU takes a second, and the start of PyTorch several."""
STEPS = """
import sys, time, torch
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(256, 1024, device="cuda")
def steps(count):
    for _ in range(count):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
steps(50)
begun = time.perf_counter()
steps(500)
print(500, (time.perf_counter() - begun) / 500 * 1e9)
"""


@click.command()
@click.option("--gpu", is_flag=True, help="Use this machine's driver and first GPU, for calls only.")
def main(*, gpu: bool) -> None:
    """Print the results as Markdown."""
    click.echo(f"{machine()}\n")
    memory_disk = Path("/dev/shm")  # noqa: S108 - the files are in a folder of our own in it
    with TemporaryDirectory(dir=memory_disk if memory_disk.is_dir() else None) as name:
        folder = Path(name)
        program = folder / "calls"
        subprocess.run(["gcc", "-O2", "-o", program, SOURCE, "-ldl"], check=True)  # noqa: S603, S607 - PATH's
        if gpu:
            on_gpu(folder, program)
        else:
            on_stub(folder, program)


def on_stub(folder: Path, program: Path) -> None:
    """Everything, over the stub driver."""
    stub = CudaStub(folder / "stub", cards=[card()])
    plain, small = (
        Container(each, build(each / "build", each), stub)
        for each in (_folder(folder, "one"), _folder(folder, "two"))
    )
    plain.limit(share(4, 15))
    heading()
    calls(program, plain, _launching(plain, share(4, 15, core_percent=50)))
    plain.limit(share(4, 15))
    start(plain)
    click.echo(f"| resident of library and region | | {_node_pod(plain):.0f} KiB | | 1 MiB |")
    many(program, plain)
    shares(*(_launching(each, share(4, 15, core_percent=core)) for each, core in ((small, 25), (plain, 75))))


def _folder(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    return made


def on_gpu(folder: Path, program: Path) -> None:
    """The calls of one process, over the driver of the first GPU."""
    try:
        gpu = asyncio.run(first_gpu())
    except GpuError as error:
        raise click.ClickException(str(error)) from None
    limit = CardLimit(gpu.uuid, gpu.mib, gpu.mib // 4, gpu.mib, CONTEXT_MIB)
    click.echo(f"{gpu.model}\n")
    plain = Preloaded(folder, build(folder / "build", folder))
    plain.limit(limit)
    launches = _launching(plain, replace(limit, core_percent=50))
    heading()
    calls(program, plain, launches, GPU_ROUNDS)
    training(plain, launches)


def training(plain: Preloaded, launches: Preloaded) -> None:
    """A step of PyTorch, in the Python of GPU_PYTHON; small layers, so that the step consists of launches."""
    command = [os.environ.get("GPU_PYTHON", "python3"), "-c", STEPS]
    took: dict[str, list[float]] = defaultdict(list)
    for _ in range(STEP_ROUNDS):
        for kind, container, env in (("alone", plain, NONE), ("memory", plain, {}), ("launch", launches, {})):
            took[kind].append(_ns(container, command, env) / 1000)
    alone = median(took["alone"])
    for kind, text in (("memory", "library for memory"), ("launch", "library for launches, tokens there")):
        ours = median(took[kind])
        click.echo(f"| step of PyTorch, {text} | {alone:.0f} µs | {ours:.0f} µs | {ours - alone:.0f} µs | |")


def heading() -> None:
    """The first lines of the table."""
    click.echo("| what | driver alone | with the library | more | goal |\n|---|---|---|---|---|")


def _launching(container: AnyContainer, limit: CardLimit) -> AnyContainer:
    """The same container with launch control, and more tokens than it can spend."""
    made = container.with_launches()
    made.limit(limit)
    made.python("context()")
    made.write(*region.rate_writes(0, PLENTY, time.monotonic_ns()))
    return made


def calls(program: Path, plain: Preloaded, launches: Preloaded, rounds: int = ROUNDS) -> None:
    """A pair of calls for memory, and a launch, of one process."""
    runs = {
        ("pairs", "alone"): (plain, NONE),
        ("pairs", "memory"): (plain, {}),
        ("launches", "alone"): (plain, NONE),
        ("launches", "memory"): (plain, {}),
        ("launches", "launch"): (launches, {}),
    }
    took: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(rounds):
        for key, (container, env) in runs.items():
            took[key].append(_ns(container, [str(program), key[0], str(ROUND_S)], env))
    typical = {key: median(each) for key, each in took.items()}
    for what, kind, text, goal in (
        ("pairs", "memory", "allocate and free", "1 µs"),
        ("launches", "memory", "launch, library for memory", "0"),
        ("launches", "launch", "launch, library for launches, tokens there", "0.3 µs"),
    ):
        alone, ours = typical[what, "alone"], typical[what, kind]
        click.echo(f"| {text} | {alone:.0f} ns | {ours:.0f} ns | {ours - alone:.0f} ns | {goal} |")


def _ns(container: Preloaded, argv: list[str], env: dict[str, str]) -> float:
    done = container.run(argv, **env)
    if done.returncode:
        raise click.ClickException(done.stderr)
    return float(done.stdout.split()[1])


def start(container: Container) -> None:
    """A program that never touches CUDA."""
    took: dict[str, list[float]] = defaultdict(list)
    for _ in range(20 * ROUNDS):
        for kind, env in (("alone", NONE), ("ours", {})):
            begun = time.perf_counter()
            container.run(["/bin/true"], **env)
            took[kind].append(1e6 * (time.perf_counter() - begun))
    alone, ours = median(took["alone"]), median(took["ours"])
    click.echo(f"| start of a program | {alone:.0f} µs | {ours:.0f} µs | {ours - alone:.0f} µs | 1 ms |")


def _node_pod(container: Container) -> float:
    """KiB of a program that has memory: pages of the library, its data and the region."""
    code = f"context(); alloc(1); left(); names = {[str(container.library), str(container.shared)]!r}"
    code += """
kib, ours = 0, False
for line in open("/proc/self/smaps"):
    if "-" in line.split()[0]: ours = any(line.rstrip().endswith(name) for name in names)
    elif ours and line.startswith("Rss:"): kib += int(line.split()[1])
say(kib)
"""
    return float(container.python(code).stdout.strip("[]\n"))


def many(program: Path, container: Container) -> None:
    """Many processes of one container at once."""
    rates: dict[str, list[float]] = defaultdict(list)
    for _ in range(MANY_ROUNDS):
        for text, env in (("driver alone", NONE), ("with the library", {})):
            rates[text].append(_rate(program, {**container.env, **env}))
    for text, each in rates.items():
        click.echo(f"\n{MANY} processes, {text}: {median(each):,.0f} pairs/s in sum")


def _rate(program: Path, env: dict[str, str]) -> float:
    """Pairs per second of all processes together."""
    started = [
        subprocess.Popen([program, "pairs", "1"], env=env, stdout=subprocess.PIPE, text=True)  # noqa: S603
        for _ in range(MANY)
    ]
    answers = [process.communicate()[0].split() for process in started]
    return sum(1e9 / float(ns) for _, ns in answers)


def shares(*containers: Container) -> None:
    """Two containers that want all of a card, with 25 and 75 percent of its time."""
    regulators = [Regulator(each, contended=True) for each in containers]
    with ExitStack() as stack:
        for each in containers:
            process = stack.enter_context(each.start(BUSY))
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
        _regulate(regulators, 1)
        before = [each.busy_ns() for each in regulators]
        elapsed = _regulate(regulators, SHARES_S)
        busy = [each.busy_ns() - then for each, then in zip(regulators, before, strict=True)]
    parts = " and ".join(f"{100 * each / elapsed / 1e9:.1f}" for each in busy)
    click.echo(f"\nParts of a card's time over {SHARES_S:g} s, 25 and 75 percent granted: {parts} percent")


def _regulate(regulators: list[Regulator], seconds: float) -> float:
    """Ten samples a second for so long; returns the seconds."""
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        time.sleep(0.1)
        for each in regulators:
            each.step()
    return time.monotonic() - begun


if __name__ == "__main__":
    main()
