"""``simulate``: its flags. What it needs is imported when it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gpushare.cli.lib.flags import document_option, with_source
from gpushare.runtime.program import CONTEXT

if TYPE_CHECKING:
    from gpushare.cli.lib.screen import Screen
    from gpushare.simulation.workload import Workload

_FILE: Final = click.Path(path_type=Path)
_FOLDER: Final = click.Path(path_type=Path, file_okay=False, exists=True)
_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare simulate --policy binpack,spread
  kubectl gpushare simulate --nodes nodes.csv --pods pods.csv
  kubectl gpushare simulate --nodes nodes.csv --pods pods.csv --policy binpack,fgd --seeds 10 -o json"""


@click.command("simulate", context_settings=CONTEXT, epilog=_EXAMPLES)
@click.option(
    "--nodes",
    type=_FILE,
    metavar="FILE",
    help="CSV: sn,cpu_milli,memory_mib,gpu,model and perhaps gpu_milli (default: the nodes of the cluster).",
)
@click.option(
    "--pods",
    type=_FILE,
    metavar="FILE",
    help="CSV: name,cpu_milli,memory_mib,num_gpu,gpu_milli and perhaps gpu_spec (default: the pods of the "
    "cluster).",
)
@click.option(
    "--policy",
    "names",
    default="binpack,spread",
    show_default=True,
    metavar="NAME[,NAME…]",
    help="Policies to compare: of the extender, or of the FGD paper (random, bestfit, fgd, …).",
)
@click.option(
    "--load",
    type=click.FloatRange(0, 10, min_open=True),
    default=1.3,
    show_default=True,
    help="GPUs that the pods request, as a multiple of all GPUs.",
)
@click.option(
    "--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, help="Runs of each policy."
)
@click.option(
    "--lifetime",
    "lifetimes",
    type=click.FloatRange(2, 1000),
    metavar="N",
    help="Let pods leave, and simulate N mean lifetimes; the second half is measured. 10 is enough.",
)
@click.option(
    "--pods-without-gpu",
    type=click.Choice(["policy", "scheduler"]),
    default="policy",
    show_default=True,
    help="Who chooses their nodes under a policy of the extender: the policy, or kube-scheduler, whose own "
    "scores then also break the ties of the policy.",
)
@click.option(
    "--save",
    type=_FOLDER,
    metavar="FOLDER",
    help="Write the nodes and pods of the cluster as CSV, too.",
)
@click.option("--plot", type=_FILE, metavar="FILE", help="Write the allocation by requests as SVG.")
@document_option
@with_source
def simulate(  # noqa: PLR0913 - one for each flag
    *,
    source: Any,
    nodes: Path | None,
    pods: Path | None,
    names: str,
    load: float,
    seeds: int,
    lifetimes: float | None,
    pods_without_gpu: str,
    save: Path | None,
    plot: Path | None,
    output: str | None,
) -> None:
    """Replay the pods of the cluster, or of CSV files, against its nodes, and compare placement policies.

    Changes nothing, and needs no cluster with files. refused_before_80 is the percentage of pods refused, of
    those that arrived before 80 % of the GPUs were allocated.
    """
    from gpushare.cli.lib.screen import Screen, serialized
    from gpushare.cli.lib.text_table import text_of
    from gpushare.cli.simulate.collect import Runs, policies_of, run_all, write
    from gpushare.cli.simulate.render import table
    from gpushare.simulation.plot import svg
    from gpushare.simulation.results import as_document

    if plot and lifetimes:
        raise click.UsageError("--plot shows arrivals without departures: leave out --lifetime")
    runs = Runs(policies_of(names), seeds, load, lifetimes, scheduler=pods_without_gpu == "scheduler")
    if (nodes is None) != (pods is None) or (nodes and save):
        raise click.UsageError("--nodes and --pods go together, and exclude --save")
    screen = Screen()
    results = run_all(_workload(screen, source, nodes, pods, save), runs)
    if plot:
        write(plot, svg(results))
    screen.show(serialized(as_document(results), output) if output else text_of(table(results)))


def _workload(
    screen: "Screen", source: Any, nodes: Path | None, pods: Path | None, save: Path | None
) -> "Workload":
    """The workload of the files, or of the cluster."""
    from gpushare.cli.simulate.collect import live, workload_of

    if nodes and pods:
        return workload_of(nodes, pods)
    notes: list[str] = []
    found: Workload = source.ask(lambda client: live(client, notes))
    screen.warn(notes)
    if save:
        from gpushare.cli.simulate.save import save as save_to

        save_to(found, save)
    return found
