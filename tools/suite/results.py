"""Counts of all tests by kind of proof, and the longest files: ``python -m tools.suite.results FOLDER``.

With ``--seconds FILE`` the times of the files are written to FILE; by them, the longest start first in the
next run. Each command that runs tests adds a file to the folder of ``GPUSHARE_RESULTS``.
"""

import argparse
import json
import os
import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = "GPUSHARE_RESULTS"
ROLES: Final = "scenarios of the roles on systemd hosts"
KINDS: Final = {
    "tests/unit/": "functions, formats and invariants",
    "tests/property/": "functions, formats and invariants",
    "tests/contract/": "functions, formats and invariants",
    "tests/components/": "manifests and Pulumi resources",
    "tests/monitoring/": "rules and alerts in Prometheus",
    "tests/repository/": "documentation, workflows and import contracts",
    "tests/process/": "programs as processes",
    "tests/ansible/": "modules and plugins of the collection",
    "tests/isolation/": "isolation library on a stub driver",
    "tests/gpu/": "physical GPU",
    "hosts": "playbooks on systemd hosts",
    "kubelet": "real kubelets and containers",
    "tests/integration/": "real control planes",
    "tests/e2e/": "whole system from images",
}
"""What the tests of a folder prove; in ``tests/integration``, what those with a need prove."""
_NEEDS: Final = ("hosts", "kubelet")
_OTHER: Final = "other"
_ALL: Final = "all"
_OUTCOMES: Final = ("passed", "failed", "skipped")
_WIDTH: Final = max(map(len, (*KINDS.values(), ROLES))) + 2
_LONGEST: Final = 25
_LONG: Final = ("tests/integration/", "tests/e2e/")


@dataclass(frozen=True)
class Result:
    """The result of one test.

    ``kind`` is what it proves, ``outcome`` is passed, failed, skipped or "" (set-up), ``test`` its id.
    ``release`` is the selected release of Kubernetes, "" for the default. ``why`` is the reason of a skip.
    """

    kind: str
    outcome: str
    seconds: float
    test: str = ""
    release: str = ""
    why: str = ""

    @property
    def file(self) -> str:
        """The file of the test."""
        return self.test.partition("::")[0]


def kind_of(test: str, needs: Collection[str]) -> str:
    """Return what a test proves, by its id and its requirements."""
    place = next((prefix for prefix in KINDS if test.startswith(prefix)), "")
    if place == "tests/integration/":
        place = next((need for need in _NEEDS if need in needs), place)
    return KINDS.get(place, _OTHER)


def record(results: Iterable[Result]) -> None:
    """Write results to the folder of the environment variable, if there is one."""
    if folder := os.environ.get(FOLDER):
        path = Path(folder) / f"{uuid.uuid4()}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([astuple(each) for each in results]))


def read(folder: Path) -> list[Result]:
    """Return the results in a folder."""
    return [Result(*each) for path in sorted(folder.glob("*.json")) for each in json.loads(path.read_text())]


def table(results: Iterable[Result]) -> list[str]:
    """Return one line for each kind, and a line with the sums."""
    found = list(results)
    kinds = dict.fromkeys([*KINDS.values(), ROLES, _OTHER])
    groups = {kind: [each for each in found if each.kind == kind] for kind in kinds}
    rows = [_row(kind, group) for kind, group in groups.items() if group]
    head = "".join(f"{title:>9}" for title in (*_OUTCOMES, "minutes"))
    return [f"{'what ran':{_WIDTH}}{head}", *rows, _row(_ALL, found)]


def longest(results: Iterable[Result]) -> list[str]:
    """Return one line for each of the files whose tests took longest, with minutes."""
    most = sorted(_seconds(results).items(), key=lambda item: -item[1])[:_LONGEST]
    return ["longest files, minutes", *(f"{value / 60:9.1f}  {file}" for file, value in most)]


def not_run(results: Iterable[Result], *, is_root: bool) -> list[str]:
    """Return one line for each reason of skipped tests of a kind, and what to do, if tests were skipped."""
    skipped = Counter((each.kind, each.why) for each in results if each.outcome == "skipped")
    if not skipped:
        return []
    lines = [f"not run: {number} of {kind}: {why}" for (kind, why), number in sorted(skipped.items())]
    kinds = len({kind for kind, _ in skipped})
    advice = "provide what the lines above name" if is_root else "run `sudo make test`"
    return [*lines, f"Tests of {kinds} kinds did not run, or not all: to run them, {advice}."]


def seconds(results: Iterable[Result]) -> dict[str, int]:
    """Return the time of each file of long tests, on the default release of Kubernetes."""
    found = _seconds(each for each in results if not each.release and each.test.startswith(_LONG))
    return {file: round(found[file]) for file in sorted(found)}


def _seconds(results: Iterable[Result]) -> dict[str, float]:
    sums: defaultdict[str, float] = defaultdict(float)
    for each in results:
        sums[each.file] += each.seconds
    return sums


def _row(title: str, results: Sequence[Result]) -> str:
    counts = Counter(each.outcome for each in results)
    minutes = sum(each.seconds for each in results) / 60
    return f"{title:{_WIDTH}}" + "".join(f"{counts[each]:9}" for each in _OUTCOMES) + f"{minutes:9.1f}"


def main() -> None:
    """Print the tables of a folder, or write the times of its files."""
    parser = argparse.ArgumentParser(prog="python -m tools.suite.results", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of results")
    parser.add_argument("--seconds", type=Path, metavar="FILE", help="write the times of the files there")
    options = parser.parse_args()
    found = read(options.folder)
    if options.seconds:
        options.seconds.write_text(json.dumps(seconds(found), indent=0) + "\n")
    else:
        print(*longest(found), "", *table(found), sep="\n")  # noqa: T201 - the output of the command


if __name__ == "__main__":
    main()
