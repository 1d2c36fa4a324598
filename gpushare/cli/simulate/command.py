"""``simulate``: its flags. What it needs is imported when it runs."""

from pathlib import Path
from typing import Final

import click

from gpushare.runtime.program import CONTEXT

_FILE: Final = click.Path(path_type=Path)
_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare simulate --nodes nodes.csv --pods pods.csv
  kubectl gpushare simulate --nodes nodes.csv --pods pods.csv --policy binpack,fgd --seeds 10 -o json"""


@click.command("simulate", context_settings=CONTEXT, epilog=_EXAMPLES)
@click.option(
    "--nodes", type=_FILE, required=True, metavar="FILE", help="CSV: sn,cpu_milli,memory_mib,gpu,model."
)
@click.option(
    "--pods",
    type=_FILE,
    required=True,
    metavar="FILE",
    help="CSV: name,cpu_milli,memory_mib,num_gpu,gpu_milli and perhaps gpu_spec.",
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
    help="Who chooses their nodes under a policy of the extender: the policy, or kube-scheduler alone.",
)
@click.option("--plot", type=_FILE, metavar="FILE", help="Write the allocation by requests as SVG.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Output format.")
def simulate(  # noqa: PLR0913 - one for each flag
    *,
    nodes: Path,
    pods: Path,
    names: str,
    load: float,
    seeds: int,
    lifetimes: float | None,
    pods_without_gpu: str,
    plot: Path | None,
    output: str | None,
) -> None:
    """Replay a workload of CSV files against nodes, and compare placement policies.

    Changes nothing and needs no cluster. refused_before_80 is the percentage of pods refused, of those that
    arrived before 80 % of the GPUs were allocated.
    """
    from gpushare.cli.lib.screen import Screen, serialized
    from gpushare.cli.lib.text_table import text_of
    from gpushare.cli.simulate.collect import Runs, policies_of, run_all, workload_of, write
    from gpushare.cli.simulate.render import table
    from gpushare.simulation.plot import svg
    from gpushare.simulation.results import as_document

    if plot and lifetimes:
        raise click.UsageError("--plot shows arrivals without departures: leave out --lifetime")
    runs = Runs(policies_of(names), seeds, load, lifetimes, scheduler=pods_without_gpu == "scheduler")
    results = run_all(workload_of(nodes, pods), runs)
    if plot:
        write(plot, svg(results))
    screen = Screen()
    screen.show(serialized(as_document(results), output) if output else text_of(table(results)))
