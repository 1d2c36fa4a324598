"""``make bench-placement FOLDER=<traces>``: allocated GPUs by policy, beside the results of the FGD paper.

The folder has the files of Alibaba's cluster-trace-gpu-v2023 (github.com/alibaba/clusterdata):
``openb_node_list_gpu_node.csv`` and ``openb_pod_list_<trace>.csv``. Traces without published results, such as
your own, are run too. What belongs here: the published figures, and the table.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Final

import click

from gpushare.cli.simulate.collect import Runs, policies_of, run_all, workload_of
from gpushare.simulation.results import Results
from tests.support.machine import machine

NODES: Final = "openb_node_list_gpu_node.csv"
PODS: Final = "openb_pod_list_"
_LOAD: Final = 1.3
_COMPARED: Final = ("random", "dotprod", "clustering", "packing", "bestfit", "fgd")
PUBLISHED: Final[Mapping[str, Sequence[float]]] = {
    "default": (87.47, 90.85, 91.88, 92.00, 93.08, 95.39),
    "cpu050": (91.24, 93.27, 93.79, 93.72, 93.79, 95.21),
    "cpu100": (89.11, 91.95, 92.64, 92.72, 93.44, 95.35),
    "gpushare40": (86.00, 89.56, 90.02, 90.03, 91.69, 94.15),
    "gpushare80": (81.22, 84.49, 84.85, 85.00, 87.01, 89.31),
    "gpushare100": (79.44, 82.42, 82.65, 82.57, 85.01, 86.90),
    "gpuspec10": (87.43, 90.39, 92.18, 92.46, 93.31, 94.95),
    "gpuspec33": (86.46, 89.14, 92.12, 93.22, 93.09, 94.55),
    "multigpu20": (88.69, 92.06, 93.56, 93.71, 93.93, 95.65),
    "multigpu50": (90.28, 94.85, 95.81, 96.18, 95.74, 97.18),
}
"""Trace → allocated GPUs in percent, with the policies of ``_COMPARED`` in the authors' simulator."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--policy", "names", default=",".join(("binpack", "spread", "replay", *_COMPARED)), show_default=True
)
@click.option("--trace", "only", multiple=True, help="Only these traces.")
@click.option("--seeds", default=10, show_default=True, help="Runs of each policy.")
@click.option("--scheduler", is_flag=True, help="kube-scheduler alone places pods without GPUs.")
def main(folder: Path, names: str, only: Sequence[str], seeds: int, *, scheduler: bool) -> None:
    """Print the results as Markdown, trace by trace."""
    runs = Runs(policies_of(names), seeds, _LOAD, scheduler=scheduler)
    click.echo(f"{machine()}; {seeds} seeds\n")
    click.echo("\n".join(head(runs.policies)))
    for trace in only or traces(folder):
        click.echo(row(trace, run_all(workload_of(folder / NODES, folder / f"{PODS}{trace}.csv"), runs)))


def traces(folder: Path) -> list[str]:
    """The traces of a folder: first those with published results, in their order. Raises UsageError."""
    found = {path.stem.removeprefix(PODS) for path in folder.glob(f"{PODS}*.csv")}
    if not found:
        raise click.UsageError(f"{folder} has no file {PODS}<trace>.csv")
    return [*(trace for trace in PUBLISHED if trace in found), *sorted(found - PUBLISHED.keys())]


def head(policies: Iterable[str]) -> Iterator[str]:
    """The first two lines of the table."""
    cells = ["trace", *policies]
    yield f"| {' | '.join(cells)} |"
    yield f"|{'---|' * len(cells)}"


def row(trace: str, results: Results) -> str:
    """Means in percent, each with the published one in parentheses."""
    published = dict(zip(_COMPARED, PUBLISHED.get(trace, ()), strict=False))
    cells = [trace]
    for name, outcomes in results.items():
        ours = f"{mean(each.allocated for each in outcomes):.2f}"
        cells.append(f"{ours} ({published[name]:.2f})" if name in published else ours)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
