"""Runs the molecule scenarios side by side, each with new hosts: ``python -m tools.molecule``.

Prints a summary of results, times and skipped checks. ``testbed.hosts`` has the hosts,
``ansible/extensions/molecule`` the scenarios.
"""

import argparse
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from devkit.errors import DevkitError
from devkit.folders import cache_root
from devkit.locks import FileLock
from devkit.signals import restore_interrupts
from testbed.hosts import needs
from tools.suite import results

_CHECKOUT: Final = Path(__file__).parents[1]
_COLLECTION: Final = _CHECKOUT / "ansible"
_SCENARIOS: Final = _COLLECTION / "extensions/molecule"
_REQUIRE_ALL: Final = "GPUSHARE_REQUIRE_ALL"
_WITH_OLD_CORE: Final = "default"
"""The scenario that also runs with the old ansible-core."""
_TAIL: Final = 150
"""Lines of output to print if a scenario fails."""
_SKIPPED: Final = re.compile(r"^SKIPPED \[(\d+)\] \S+ (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """One scenario with one ansible-core, that of ``venv``."""

    scenario: str
    venv: Path = _COLLECTION / ".venv"

    @property
    def title(self) -> str:
        """Its name in the summary."""
        return (
            self.scenario if self.venv.parent == _COLLECTION else f"{self.scenario} ({self.venv.parent.name})"
        )


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    run: Run
    passed: bool
    seconds: float
    output: str

    @property
    def skipped(self) -> list[tuple[int, str]]:
        """(number of checks, reason), as printed by pytest."""
        return [(int(number), reason) for number, reason in _SKIPPED.findall(self.output)]


def main() -> None:
    """Run the scenarios of the command line, or all; the exit status is 1 if one is not accepted."""
    parser = argparse.ArgumentParser(prog="python -m tools.molecule", description=__doc__)
    parser.add_argument("scenario", nargs="*", help="names of scenarios; default: all")
    parser.add_argument("--at-once", type=int, choices=range(1, 9), default=2, help="scenarios side by side")
    options = parser.parse_args()
    chosen = runs(options.scenario)
    interrupt_on_termination()
    try:
        needs.look()
    except DevkitError as error:
        if os.environ.get(_REQUIRE_ALL):
            sys.exit(f"molecule: {error}")
        _say(f"molecule: skipped, {error}")
        skipped = results.Result(results.ROLES, "skipped", 0, "molecule", why=str(error))
        results.record([skipped] * len(chosen))
        return
    if missing := {each.venv for each in chosen if not each.venv.is_dir()}:
        sys.exit(f"molecule: {', '.join(map(str, sorted(missing)))} missing: run `make setup-ansible`")
    began = time.monotonic()
    outcomes = run_all(chosen, options.at_once)
    _say(*summary(outcomes, time.monotonic() - began))
    results.record(
        results.Result(results.ROLES, "passed" if each.passed else "failed", each.seconds, "molecule")
        for each in outcomes
    )
    sys.exit(not all(accepted(each, required=bool(os.environ.get(_REQUIRE_ALL))) for each in outcomes))


def interrupt_on_termination() -> None:
    """Handle SIGTERM as an interrupt of this process group, in which molecule runs: its hosts are removed."""
    restore_interrupts()
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGINT))


def runs(names: Sequence[str]) -> list[Run]:
    """Return the runs of these scenarios, or of all; one also runs with the old ansible-core."""
    found = sorted(file.parent.name for file in _SCENARIOS.glob("*/molecule.yml"))
    if unknown := set(names) - set(found):
        sys.exit(f"molecule: unknown scenario {', '.join(sorted(unknown))}: use one of {', '.join(found)}")
    chosen = [Run(name) for name in found if name in names or not names]
    old = [Run(_WITH_OLD_CORE, _COLLECTION / "legacy/.venv")]
    return [*chosen, *(old if not names or _WITH_OLD_CORE in names else [])]


def run_all(chosen: Sequence[Run], at_once: int) -> list[Outcome]:
    """Run them, ``at_once`` at a time, and print each result."""
    sets: SimpleQueue[str] = SimpleQueue()

    def run_one(each: Run) -> Outcome:
        hosts = sets.get()
        try:
            outcome = run(each, hosts)
        finally:
            sets.put(hosts)
        print_result(outcome)
        return outcome

    with reserved(at_once) as names, ThreadPoolExecutor(at_once) as pool:
        for name in names:
            sets.put(name)
        return list(pool.map(run_one, chosen))


@contextmanager
def reserved(count: int) -> Iterator[list[str]]:
    """Names of sets of hosts that no other run uses: each run removes its own sets.

    A killed run leaves its sets; the next run with these names replaces them.
    """
    folder = cache_root() / "molecule"
    with ExitStack() as stack:
        names: list[str] = []
        for number in itertools.count():
            lock = FileLock(folder / f"{number}.lock")
            if lock.try_acquire():
                stack.callback(lock.release)
                names.append(f"molecule-{number}")
            if len(names) == count:
                break
        yield names


def run(each: Run, hosts: str) -> Outcome:
    """Run one scenario with the set ``hosts``, and remove them even if molecule is interrupted."""
    began = time.monotonic()
    with removed(hosts), tempfile.TemporaryDirectory(prefix="molecule-") as folder:
        ended = subprocess.run(  # noqa: S603
            [
                _COLLECTION / ".venv/bin/molecule",
                "test",
                # `removed` does it, also after an interrupt.
                "--destroy=never",
                "--no-command-borders",
                f"--scenario-name={each.scenario}",
            ],
            cwd=_COLLECTION,
            env={
                **os.environ,
                "ANSIBLE_FORCE_COLOR": "0",
                "GPUSHARE_CACHE": str(cache_root()),
                "GPUSHARE_HOSTS": hosts,
                "MOLECULE_EPHEMERAL_DIRECTORY": folder,
                "NO_COLOR": "1",
                "PATH": f"{each.venv}/bin:{_COLLECTION}/.venv/bin:{os.environ['PATH']}",
                # kubernetes.core leaves a file for each cluster it has seen.
                "TMPDIR": folder,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    return Outcome(each, ended.returncode == 0, time.monotonic() - began, ended.stdout)


@contextmanager
def removed(hosts: str) -> Iterator[None]:
    """Remove the set ``hosts`` and its cluster at the end, if they are there."""
    try:
        yield
    finally:
        for command in (
            ["testbed.hosts", f"--name={hosts}", "down"],
            ["testbed", "down", f"--name=molecule-{hosts}", "--ignore-not-found"],
        ):
            argv = [sys.executable, "-m", *command]
            subprocess.run(argv, cwd=_CHECKOUT, stdout=subprocess.DEVNULL, check=False)  # noqa: S603 - ours


def print_result(outcome: Outcome) -> None:
    """Print one line; for a failed scenario, print the end of its output first."""
    if not outcome.passed:
        _say(*outcome.output.splitlines()[-_TAIL:])
    verdict = "ok" if outcome.passed else "FAILED"
    _say(f"molecule: {outcome.run.title:24} {verdict:6} {outcome.seconds:5.0f} s")


def summary(outcomes: Sequence[Outcome], seconds: float) -> list[str]:
    """Return skipped checks with reasons, the total time, and the number of passed scenarios."""
    passed = sum(outcome.passed for outcome in outcomes)
    skipped = [(outcome.run.title, *each) for outcome in outcomes for each in outcome.skipped]
    count = sum(number for _, number, _ in skipped)
    return [
        *(f"molecule: {title}: {number} checks skipped: {reason}" for title, number, reason in skipped),
        f"molecule: {len(outcomes)} scenarios in {seconds:.0f} s, {count} checks skipped",
        f"molecule: {passed} passed, {len(outcomes) - passed} failed",
    ]


def accepted(outcome: Outcome, *, required: bool) -> bool:
    """Return whether a scenario passed, and ran all its checks if all are ``required``."""
    return outcome.passed and not (required and outcome.skipped)


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)  # noqa: T201 - the output of the command


if __name__ == "__main__":
    main()
