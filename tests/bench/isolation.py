"""``make bench-isolation``: the cost of the preloaded library, compared with the stub driver in the same run.

The stub is a fake: its calls take almost no time, so the results show the cost of the library. Runs with and
without the library alternate; their medians are reported. Limit and region are in memory, as on a node.
Compute shares are measured by the counters of the stub; the bench replaces the node agent.
"""

import subprocess
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click

from gpushare.isolation import region
from testbed.cuda import CudaStub
from tests.fixtures.isolation import LAUNCH_LIBRARY, Container, Regulator, build, card, share
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


@click.command()
def main() -> None:
    """Print the results as Markdown."""
    click.echo(f"{machine()}\n")
    memory_disk = Path("/dev/shm")  # noqa: S108 - the files are in a folder of our own in it
    with TemporaryDirectory(dir=memory_disk if memory_disk.is_dir() else None) as name:
        folder = Path(name)
        stub = CudaStub(folder / "stub", cards=[card()])
        plain, small = (_container(folder / each, stub) for each in ("one", "two"))
        launches = _launching(plain, 50)
        program = folder / "calls"
        subprocess.run(["gcc", "-O2", "-o", program, SOURCE, "-ldl"], check=True)  # noqa: S603, S607 - PATH's
        click.echo("| what | driver alone | with the library | more | goal |\n|---|---|---|---|---|")
        calls(program, plain, launches)
        start(plain)
        click.echo(f"| resident of library and region | | {_node_pod(plain):.0f} KiB | | 1 MiB |")
        many(program, plain)
        shares(_launching(small, 25), _launching(plain, 75))


def _container(folder: Path, stub: CudaStub) -> Container:
    folder.mkdir()
    made = Container(folder, build(folder / "build", folder), stub)
    made.limit(share(4, 15))
    return made


def _launching(container: Container, percent: int) -> Container:
    """The same container with launch control, and more tokens than it can spend."""
    made = Container(container.folder, container.library.with_name(LAUNCH_LIBRARY), container.stub)
    made.limit(share(4, 15, core_percent=percent))
    made.python("context()")
    made.write(*region.rate_writes(0, PLENTY, time.monotonic_ns()))
    return made


def calls(program: Path, plain: Container, launches: Container) -> None:
    """A pair of calls for memory, and a launch, of one process."""
    runs = {
        ("pairs", "alone"): (plain, NONE),
        ("pairs", "memory"): (plain, {}),
        ("launches", "alone"): (plain, NONE),
        ("launches", "memory"): (plain, {}),
        ("launches", "launch"): (launches, {}),
    }
    took: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
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


def _ns(container: Container, argv: list[str], env: dict[str, str]) -> float:
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
    regulators = [Regulator(each, percent) for each, percent in zip(containers, (25, 75), strict=True)]
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
