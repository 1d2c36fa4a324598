"""A workload as CSV files, which ``simulate`` and other simulators read."""

import csv
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Final

import click

from gpushare.cli.simulate.collect import write
from gpushare.simulation.trace_csv import NODE_COLUMNS, POD_COLUMNS, SIZE, SPEC
from gpushare.simulation.workload import NodeSpec, Shape, Workload

NODES: Final = "nodes.csv"
PODS: Final = "pods.csv"


def save(workload: Workload, folder: Path) -> None:
    """Write both files, which must not exist, to a folder that does. Raises UsageError."""
    for name in (NODES, PODS):
        if (folder / name).exists():
            raise click.UsageError(f"{folder / name} exists already: name another folder after --save")
    write(folder / NODES, _text((*NODE_COLUMNS, SIZE), map(_node, workload.nodes)))
    write(folder / PODS, _text((*POD_COLUMNS, SPEC), map(_pod, range(len(workload.pods)), workload.pods)))


def _node(node: NodeSpec) -> tuple[object, ...]:
    return node.name, node.cpu, node.memory, node.gpus, node.model, node.milli


def _pod(number: int, pod: Shape) -> tuple[object, ...]:
    """Without its name, which says who runs what."""
    return f"pod-{number}", pod.cpu, pod.memory, pod.gpus, pod.milli, "|".join(sorted(pod.models))


def _text(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    stream = StringIO()
    csv.writer(stream, lineterminator="\n").writerows([head, *rows])
    return stream.getvalue()
