"""``make bench PART=models GPU=1``: tokens of two servers of one model, by how they share a GPU."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from gpushare.adapters.nvml import Nvml
from gpushare.errors import GpuError
from gpushare.model.hardware import Inventory
from tests.bench.models.arms import ARMS, Arm, selected
from tests.bench.models.report import Conditions, page
from tests.bench.models.results import Run
from tests.bench.models.running import Bench, measure
from tests.bench.models.shapes import SHAPES, needed_mib
from tests.bench.models.trace import LENGTH
from tests.support.fixtures.isolation import Preloaded, build
from tests.support.machine import machine

_SERVERS: Final = max(arm.servers for arm in ARMS)
_VERSION: Final = "import torch, torch.nn.functional as f; f.rms_norm; print(torch.__version__)"
_IMPORT_S: Final = 120
_MEMORY_DISK: Final = Path("/dev/shm")  # noqa: S108 - the files are in a folder of our own in it


@dataclass(frozen=True)
class Options:
    """What the command line chooses: a shape, clients of each server, the seed of trace and weights."""

    arms: Sequence[Arm]
    rounds: int
    shape: str
    slots: int
    seed: int
    out: Path | None


@click.command(context_settings={"show_default": True})
@click.option("--gpu", is_flag=True, help="Use the first GPU of this machine; there is no run without one.")
@click.option("--minutes", type=click.FloatRange(min=1), default=12.0, help="All runs end within this time.")
@click.option("--rounds", type=click.IntRange(min=1), default=2, help="Runs of each arm.")
@click.option("--arm", "names", multiple=True, help="Only this arm; repeatable.")
@click.option("--shape", type=click.Choice(list(SHAPES)), default="qwen3-4b", help="Shape of the model.")
@click.option("--slots", type=click.IntRange(min=1), default=8, help="Clients of each server.")
@click.option("--seed", type=int, default=1, help="Seed of trace and weights.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the report here, after each run.")
def main(  # noqa: PLR0913 - one for each option
    *,
    gpu: bool,
    minutes: float,
    rounds: int,
    names: Sequence[str],
    shape: str,
    slots: int,
    seed: int,
    out: Path | None,
) -> None:
    """Print the results as Markdown. The servers run in the Python of GPU_PYTHON (python3), with PyTorch."""
    ends_s = time.monotonic() + 60 * minutes
    if not gpu:
        raise click.ClickException("this needs a physical GPU: make bench PART=models GPU=1")
    try:
        options = Options(selected(names), rounds, shape, slots, seed, out)
        inventory = asyncio.run(_inventory())
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    except GpuError as error:
        raise click.ClickException(f"this needs a physical GPU: {error}") from None
    _check_memory(inventory, options)
    python = os.environ.get("GPU_PYTHON", "python3")
    torch = _torch(python)
    with TemporaryDirectory(dir=_MEMORY_DISK if _MEMORY_DISK.is_dir() else None) as name:
        click.echo(_run(inventory, options, (python, torch), Path(name), ends_s))


async def _inventory() -> Inventory:
    """The GPUs of this machine. Raises GpuError without one."""
    async with Nvml() as driver:
        found = await driver.inventory()
    if not found.gpus:
        raise GpuError("the driver lists no GPU")
    return found


def _check_memory(inventory: Inventory, options: Options) -> None:
    gpu, needed = inventory.gpus[0], needed_mib(SHAPES[options.shape], options.slots, LENGTH)
    if gpu.mib // _SERVERS < needed:
        raise click.ClickException(
            f"{gpu.model} has {gpu.mib} MiB, {_SERVERS} servers of {options.shape} with {options.slots} "
            f"clients need {_SERVERS * needed}: use fewer --slots, or another --shape"
        )


def _torch(python: str) -> str:
    """The version of its PyTorch."""
    try:
        done = subprocess.run(  # noqa: S603 - a Python
            [python, "-c", _VERSION], capture_output=True, text=True, timeout=_IMPORT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).splitlines()[-1]
        raise click.ClickException(
            f"{python} cannot import PyTorch 2.4 or later ({reason}): set GPU_PYTHON to a Python that can"
        ) from None
    return done.stdout.strip()


def _run(inventory: Inventory, options: Options, python: tuple[str, str], folder: Path, ends_s: float) -> str:
    """Run the arms and return the page; it is also written after each run."""
    gpu, (interpreter, torch) = inventory.gpus[0], python
    conditions = Conditions(
        machine(),
        gpu=gpu.model,
        driver=inventory.driver,
        cuda=inventory.cuda or "unknown",
        torch=torch,
        model=options.shape,
        parameters=SHAPES[options.shape].parameters,
        slots=options.slots,
        seed=options.seed,
    )
    containers = [_container(folder / str(server)) for server in range(_SERVERS)]
    bench = Bench(gpu, interpreter, folder, containers, options.shape, options.slots, options.seed)

    def on_run(runs: Sequence[Run]) -> None:
        last = runs[-1]
        click.echo(
            f"round {last.number + 1}, {last.arm}: {last.failure or f'{last.rate:.1f} tokens/s'}", err=True
        )
        if options.out:
            options.out.write_text(page(conditions, runs, options.arms))

    runs = asyncio.run(measure(bench, options.arms, options.rounds, ends_s, on_run))
    return page(conditions, runs, options.arms)


def _container(folder: Path) -> Preloaded:
    folder.mkdir()
    return Preloaded(folder, build(folder / "build", folder))


if __name__ == "__main__":
    sys.exit(main())
