"""``python -m testbed``: testbeds that keep running after the command has returned.

What belongs here: arguments and output. What does not: everything else. Paths and lists are printed to
stdout, progress and errors to stderr; exit codes are those of ``gpushare.runtime.program``.
"""

import asyncio
from pathlib import Path

import click

from devkit import pids
from devkit.folders import bed_folder, cache_root, writable_cache
from devkit.process import tail
from gpushare.runtime.program import run
from testbed.control_plane.home import note_of, take_down
from testbed.control_plane.nodes import SimGpu, SimNode
from testbed.control_plane.scheduler import LEGACY, SchedulerSpec
from testbed.control_plane.start import Testbed
from testbed.programs import binaries, build
from testbed.programs.binaries import TOOLS, release

_NAME = click.option("--name", default="main", show_default=True, help="Name of the testbed.")


@click.group()
def cli() -> None:
    """Run a real Kubernetes cluster with simulated GPUs on this machine, on loopback only."""


@cli.command()
@_NAME
@click.option(
    "--scheduler",
    type=click.Choice(["current", LEGACY, "none"]),
    default="current",
    show_default=True,
    help="kube-scheduler: that of the control plane, 1.22, or none.",
)
@click.option(
    "--scheduler-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with a KubeSchedulerConfiguration, or with a Policy (1.22).",
)
@click.option("--audit", is_flag=True, help="Log all writes to the API server in audit.jsonl.")
@click.option("--nodes", default=0, show_default=True, help="Number of simulated nodes.")
@click.option("--cards", default=4, show_default=True, help="Tesla T4 GPUs of each simulated node.")
def up(
    name: str, scheduler: str, scheduler_config: Path | None, *, audit: bool, nodes: int, cards: int
) -> None:
    """Start a testbed and leave it running.

    Prints the path of its kubeconfig.
    """
    writable_cache()
    config = scheduler_config.read_text() if scheduler_config else None
    version = {"current": release(), "none": None}.get(scheduler, scheduler)
    plan = Testbed(name, SchedulerSpec(version, config=config), audit=audit, bound=False)
    simulated = [SimNode(f"sim-{index}", [SimGpu()] * cards) for index in range(nodes)]
    click.echo(asyncio.run(_up(plan, simulated)))


@cli.command()
@_NAME
@click.option("--ignore-not-found", is_flag=True, help="Succeed if there is no such testbed.")
def down(name: str, *, ignore_not_found: bool) -> None:
    """Stop a running testbed; its logs are kept."""
    folder = bed_folder(name, cache_root())
    killed = [] if ignore_not_found and not folder.is_dir() else take_down(folder)
    click.echo(f"stopped: {', '.join(killed) or 'nothing was running'}")


@cli.command()
def status() -> None:
    """List the testbeds and their running processes."""
    for folder in sorted((cache_root() / "beds").glob("*/")):
        alive = ", ".join(pids.running(folder)) or "no running process"
        note = (note_of(folder) or {}).get("kubeconfig")
        click.echo(f"{folder.name}: {alive}" + (f" (KUBECONFIG={note})" if note else ""))


@cli.command()
@click.argument("name")
@click.argument("component", metavar="COMPONENT")
@click.option("--lines", default=50, show_default=True, help="Number of lines.")
def logs(name: str, component: str, lines: int) -> None:
    """Print the last lines of the log of a component."""
    folder = bed_folder(name, cache_root()) / "logs"
    path = folder / f"{component}.log"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in folder.glob("*.log"))) or "none"
        raise click.ClickException(f"{path} does not exist; logs of this testbed: {known}")
    click.echo(tail(path, lines))


@cli.command(name="bin")
@click.argument("names", nargs=-1, metavar="[NAME]...", type=click.Choice(list(TOOLS)))
@click.option("--all", "everything", is_flag=True, help="All tools, of one release of Kubernetes.")
@click.option("--short", is_flag=True, help="All tools except those that only the long tests need.")
def bin_path(names: tuple[str, ...], *, everything: bool, short: bool) -> None:
    """Print the paths of tools; build the missing ones first.

    TESTBED_KUBERNETES selects the release of Kubernetes.
    """
    if bool(names) + everything + short != 1:
        raise click.UsageError(f"specify tools ({', '.join(TOOLS)}), --short or --all")
    writable_cache()
    wanted = list(names) or [name for name in binaries.names() if everything or not TOOLS[name].is_long]
    for installed in asyncio.run(build.ensure(wanted)).values():
        click.echo(installed.path)


async def _up(plan: Testbed, nodes: list[SimNode]) -> Path:
    bed = await plan.open()
    try:
        await bed.add_nodes(nodes)
        await bed.leave_up()
    except BaseException:
        await bed.close()
        raise
    return bed.kubeconfig


if __name__ == "__main__":
    run(cli, failure="testbed: ")
