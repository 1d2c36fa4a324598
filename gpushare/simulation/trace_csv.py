"""Nodes and pods from CSV files with the columns of Alibaba's cluster-trace-gpu-v2023 (clusterdata).

Pure: texts in, values out. A problem names the line and the column; the caller adds the file.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from gpushare.errors import InvalidRequest
from gpushare.simulation.workload import GPU, NodeSpec, Shape

NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
SPEC: Final = "gpu_spec"
"""Optional: models, with ``|`` between alternatives."""
SIZE: Final = "gpu_milli"
"""Optional for nodes: thousandths of the largest GPU that each GPU has."""
_NUMBER: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_MOST_GPUS: Final = 1024
_MOST_ROWS: Final = 10**6
_T = TypeVar("_T")


class _Row:
    """A line of the file, and its problems."""

    def __init__(self, line: int, cells: Mapping[str, str]) -> None:
        self.line = line
        self._cells = cells

    def problem(self, column: str, what: str) -> InvalidRequest:
        return InvalidRequest(f"line {self.line}, column {column}: {what}")

    def text(self, column: str) -> str:
        found = self._cells.get(column, "").strip()
        if not found:
            raise self.problem(column, "is empty")
        return found

    def optional(self, column: str) -> str:
        return self._cells.get(column, "").strip()

    def number(self, column: str, most: int = 10**12) -> int:
        text = self.text(column)
        if not _NUMBER.fullmatch(text) or int(text) > most:
            raise self.problem(column, f"{text[:40]!r} is not a whole number from 0 to {most}")
        return int(text)


def nodes_of(text: str) -> tuple[NodeSpec, ...]:
    """The nodes of a file. Raises InvalidRequest."""
    nodes = tuple(_unique(_rows(text, NODE_COLUMNS), "sn", _node))
    if not any(node.gpus for node in nodes):
        raise InvalidRequest("line 2, column gpu: no node has a GPU")
    return nodes


def pods_of(text: str, models: frozenset[str]) -> tuple[Shape, ...]:
    """The pods of a file, for nodes with these GPU models. Raises InvalidRequest."""
    pods = tuple(_unique(_rows(text, POD_COLUMNS), "name", lambda row: _pod(row, models)))
    if not any(pod.units for pod in pods):
        raise InvalidRequest("line 2, column num_gpu: no pod requests a GPU")
    return pods


def _rows(text: str, columns: tuple[str, ...]) -> Iterator[_Row]:
    reader = csv.reader(text.removeprefix("\ufeff").splitlines(), strict=True)
    try:
        head = [cell.strip() for cell in next(reader, [])]
        if missing := [column for column in columns if column not in head]:
            raise InvalidRequest(f"line 1, column {missing[0]}: is missing; needed are {','.join(columns)}")
        for cells in reader:
            if reader.line_num > _MOST_ROWS:
                raise InvalidRequest(f"line {reader.line_num}, column {head[0]}: over {_MOST_ROWS} lines")
            if any(cells):
                yield _Row(reader.line_num, dict(zip(head, cells, strict=False)))
    except csv.Error as error:
        raise InvalidRequest(f"line {reader.line_num}, column {columns[0]}: {error}") from error


def _unique(rows: Iterable[_Row], column: str, of: Callable[[_Row], _T]) -> Iterator[_T]:
    lines: dict[str, int] = {}
    for row in rows:
        name = row.text(column)
        if name in lines:
            raise row.problem(column, f"{name[:80]!r} is in line {lines[name]} too")
        lines[name] = row.line
        yield of(row)
    if not lines:
        raise InvalidRequest(f"line 2, column {column}: the file has no rows")


def _node(row: _Row) -> NodeSpec:
    gpus = row.number("gpu", _MOST_GPUS)
    model = row.text("model") if gpus else row.optional("model")
    size = row.number(SIZE, GPU) if row.optional(SIZE) else GPU
    if gpus and not size:
        raise row.problem(SIZE, f"0 with gpu {gpus}: leave it empty for {GPU}")
    return NodeSpec(row.text("sn"), row.number("cpu_milli"), row.number("memory_mib"), gpus, model, size)


def _pod(row: _Row, models: frozenset[str]) -> Shape:
    gpus, milli = row.number("num_gpu", _MOST_GPUS), row.number("gpu_milli", GPU)
    if bool(gpus) != bool(milli):
        raise row.problem("gpu_milli", f"{milli} with num_gpu {gpus}: both are 0, or none")
    spec = frozenset(filter(None, row.optional(SPEC).split("|")))
    if unknown := sorted(spec - models):
        raise row.problem(
            SPEC, f"no node has the model {unknown[0][:40]!r}; known: {', '.join(sorted(models))}"
        )
    return Shape(row.number("cpu_milli"), row.number("memory_mib"), gpus, milli, spec)
