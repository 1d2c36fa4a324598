"""Runs the tests of the fault table, and writes ``docs/reference/faults.md``: ``make test-faults``.

What belongs here: which tests have a row, the stored results, the page. What does not: the marker and the
results of one test (``tests.support.faults``).
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tools import provenance

ROOT: Final = Path(__file__).parents[1]
DATA: Final = ROOT / "docs/reference/faults.json"
PAGE: Final = DATA.with_suffix(".md")
RESULTS: Final = "GPUSHARE_FAULTS"
"""Environment variable with the file that tests append their results to, one JSON object per line."""

_HEAD: Final = """\
<!-- Generated from faults.json by `make test-faults`; change the tests instead. -->
# Faults

Each row is a test with real components: etcd, kube-apiserver, and the extender or the node agent as processes; those
with a kubelet run containers. Most tests bind and delete pods all the time while they inject the fault. Their calls go
to all replicas in turn, also to those that do not answer, with the timeout of kube-scheduler, 5 s. Then the test
counts, without code of the product:

- over-commits: moments at which the pods of a GPU had more units than it has, in the recorded history of all pods, or
  with a kubelet in the limits of the running containers;
- lost reservations: units of bound pods that the ledger of a replica or the record of the agent does not count when
  the fault is over; units that are counted without a pod fail the test too;
- recovery: seconds from the end of the fault, or from the fault itself if it has no end, to what the column names.

The extenders have a lease of some seconds and an API request timeout of 4 s (20 s after the crash, 12 s
for the late bind, 20 s for the frozen leader that is asked to bind), so that a test takes seconds; [with the defaults](../concepts/availability.md#how-long-a-new-leader-waits) a new leader waits longer. A test
fails if one of the first two numbers is not 0; it compares the recovery only with a generous limit.

`make test-faults` runs the tests, as root, and writes this page. Last run: commit {commit}, {date}, {machine}.

| component | fault | over-commits | lost reservations | recovery | test |
|---|---|---|---|---|---|
"""  # noqa: E501 - lines of a page


class RowKey(NamedTuple):
    """What identifies a row: the test as ``path::function``, the fault and the component."""

    test: str
    fault: str
    component: str


def marked(root: Path = ROOT) -> Iterator[RowKey]:
    """Yield the row of each ``fault(…)`` in the decorators of the integration tests."""
    for path in sorted((root / "tests/integration").rglob("test_*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.AsyncFunctionDef):
                test = f"{path.relative_to(root)}::{function.name}"
                yield from (RowKey(test, *arguments) for arguments in _faults(function.decorator_list))


def _faults(decorators: Iterable[ast.expr]) -> Iterator[tuple[str, str]]:
    for node in (each for decorator in decorators for each in ast.walk(decorator)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "fault":
            (component,) = node.keywords
            yield ast.literal_eval(node.args[0]), ast.literal_eval(component.value)


def row(result: Mapping[str, Any]) -> RowKey:
    """Return what identifies a stored result."""
    return RowKey(result["test"], result["fault"], result["component"])


def page(data: Mapping[str, Any]) -> str:
    """Return the page of stored results."""
    head = _HEAD.format(commit=f"`{data['commit']}`", date=data["date"], machine=data["machine"])
    return head + "".join(f"| {' | '.join(_cells(each))} |\n" for each in data["rows"])


def _cells(result: Mapping[str, Any]) -> Sequence[str]:
    return (
        result["component"],
        result["fault"],
        str(result["over_commits"]),
        str(result["lost_reservations"]),
        f"{result['recovery_s']:.1f} s to {result['recovered']}",
        f"`{result['test'].partition('::')[0]}`",
    )


def _run(results: Path) -> int:
    """Run all marked tests and return the exit status of pytest."""
    files = sorted({each.test.partition("::")[0] for each in marked()})
    argv = [sys.executable, "-m", "pytest", "-q", "-m", "fault", *files]
    return subprocess.run(argv, cwd=ROOT, env={**os.environ, RESULTS: str(results)}, check=False).returncode  # noqa: S603


def _stored(results: Path) -> dict[str, Any]:
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    return {
        "commit": provenance.commit(),
        "date": provenance.today(),
        "machine": provenance.machine(),
        "rows": sorted(rows, key=lambda each: (each["component"], each["fault"])),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests and write data and page; with ``--results``, write the results of an earlier run."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--results", type=Path, help="results of an earlier run instead of a new one")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        results = options.results or Path(folder) / "results.jsonl"
        if not options.results and (status := _run(results)):
            return status
        data = _stored(results)
    missing = set(marked()) - {row(each) for each in data["rows"]}
    for each in sorted(missing):
        sys.stderr.write(f"no result of {each.test}: {each.fault}\n")
    if missing:
        return 1
    DATA.write_text(json.dumps(data, indent=1) + "\n")
    PAGE.write_text(page(data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
