"""Runs the tests of this project: ``make test`` and ``make test-all``.

Two rows of steps run beside each other: the fast tests, one step after the other, and the tests on real
components, for which programs and images are built first. Every step runs to its end. What belongs here: the
steps and their order. What does not: the choice of long tests (``tiers``), processes (``jobs``), what is
printed (``report``) and counted (``results``).
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tools.suite import jobs, report, results, tiers
from tools.suite.report import Ended, say

_STEP_S: Final = 75 * 60.0
_POLL_S: Final = 0.5
_INOTIFY: Final = Path("/proc/sys/fs/inotify/max_user_instances")
_INSTANCES: Final = 1024
"""Concurrent systemd hosts and kubelets need more than the usual limit of 128."""
_ENVIRONMENT: Final = {
    # Several loads run at once on what may be two cores: conditions may take longer than on a free machine.
    "GPUSHARE_TIMEOUT_FACTOR": "4",
    # Control planes and kubelets of tests live for seconds: with fewer garbage collections they start sooner.
    "GOGC": "400",
    # The output of a step is followed in its file.
    "PYTHONUNBUFFERED": "1",
}
_SLOTS_BESIDE, _SLOTS_ALONE = 1, 4
"""Files of tests on real components at a time: beside the fast tests, and afterwards."""


@dataclass(frozen=True)
class MakeStep:
    """A make target with its variables; ``title`` is what it does, ``env`` is added to its environment."""

    target: str
    title: str
    variables: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        """Its command line."""
        return ["make", "--no-print-directory", self.target, *self.variables]


@dataclass(frozen=True)
class Plan:
    """What to run: all tests, or the short ones and those that changes since ``since`` concern."""

    choice: tiers.Selection
    everything: bool = False
    since: str | None = None

    @property
    def _tier(self) -> tuple[str, ...]:
        """The variables of make that leave tests out."""
        return () if self.everything else (f"SINCE={self.since}",) if self.since else ("SHORT=1",)

    @property
    def fast(self) -> list[MakeStep]:
        """The steps that need no built program, in their order."""
        profile = "PROFILE=full" if self.everything else "PROFILE=check"
        return [
            MakeStep(
                "check", "lint, types, layers, functions, formats and invariants", (profile, "WORKERS=2")
            ),
            MakeStep("test-cli", "programs as processes", (profile, *self._tier)),
            MakeStep(
                "test-ansible", "modules, plugins and inventories of the Ansible collection", self._tier
            ),
            MakeStep("test-isolation", "the isolation library on a stub of the driver", self._tier),
            MakeStep("test-gpu", "a physical GPU, if there is one"),
            MakeStep("lint-ansible", "lint of roles and playbooks"),
            MakeStep("docs", "documentation"),
        ]

    @property
    def builds(self) -> list[MakeStep]:
        """The steps that build what the tests on real components run."""
        is_short = not self.everything and not self.since
        programs = MakeStep("programs" if is_short else "programs-all", "programs of the testbed")
        # If images cannot be built, their tests print the reason too.
        return [programs, MakeStep("images", "images of the services")]

    @property
    def real(self) -> list[list[MakeStep]]:
        """The steps that run real components, in rows that run beside each other."""
        named = " ".join(tiers.scenarios(self.choice))
        rows = [
            [
                MakeStep(
                    "test-integration", "real control planes, kubelets, images", ("WORKERS=4", *self._tier)
                )
            ],
            [MakeStep("test-molecule", "roles on systemd hosts", ("AT_ONCE=1", f"SCENARIO={named}"))],
        ]
        return rows if self.choice.left_out else [*rows, _NEWEST]


_NEWEST: Final = [
    MakeStep("programs-next", "programs of the newest Kubernetes"),
    MakeStep("test-k8s-next", "real control planes of the newest Kubernetes", ("WORKERS=1",)),
]


@dataclass
class SuiteRun:
    """A plan under way: ``folder`` has the logs, ``started`` the programs, ``ended`` the results."""

    plan: Plan
    folder: Path
    started: list["subprocess.Popen[bytes]"]
    ended: list[Ended] = field(default_factory=list)

    async def all(self) -> None:
        """Run every step to its end, and print the output of all as it comes."""
        async with asyncio.TaskGroup() as beside:
            helpers = [beside.create_task(each) for each in (self._follow(), jobs.until_stopped())]
            async with asyncio.TaskGroup() as rows:
                rows.create_task(self._fast())
                rows.create_task(self._real())
            for each in helpers:
                each.cancel()

    async def _fast(self) -> None:
        self._open_slots(_SLOTS_BESIDE)
        await self._row(self.plan.fast)
        self._open_slots(_SLOTS_ALONE)

    async def _real(self) -> None:
        await self._row(self.plan.builds)
        slots = {"GPUSHARE_SLOTS": str(self._slots)}
        async with asyncio.TaskGroup() as group:
            for row in self.plan.real:
                group.create_task(self._row([replace(step, env=slots) for step in row]))

    async def _row(self, steps: Sequence[MakeStep]) -> None:
        for step in steps:
            await self._step(step)

    async def _step(self, step: MakeStep) -> None:
        log, began = self.folder / f"{step.target}.log", time.monotonic()
        say(step.target, f"begins: {step.title}")
        job = jobs.start(step.command, log, {**_ENVIRONMENT, **step.env})
        self.started.append(job)
        status = await jobs.ended(job, _STEP_S)
        found = Ended(step.target, step.title, status, time.monotonic() - began, log)
        self.ended.append(found)
        say(step.target, found.verdict)

    @property
    def _slots(self) -> Path:
        return self.folder / "slots"

    def _open_slots(self, count: int) -> None:
        self._slots.mkdir(exist_ok=True)
        for number in range(count):
            (self._slots / str(number)).touch()

    async def _follow(self) -> None:
        follower = report.LogFollower(self.folder)
        try:
            while True:
                follower.print_new()
                jobs.reap_orphans(self.started)
                await asyncio.sleep(_POLL_S)
        finally:
            follower.print_new()


@contextmanager
def _more_instances() -> Iterator[None]:
    """Raise the limit of inotify instances, as root, and restore it."""
    before = _INOTIFY.read_text()
    raised = os.access(_INOTIFY, os.W_OK) and int(before) < _INSTANCES
    if raised:
        _INOTIFY.write_text(str(_INSTANCES))
    try:
        yield
    finally:
        if raised:
            _INOTIFY.write_text(before)


def main() -> None:
    """Run the tests of the command line; the exit status is 1 if a step failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.suite.run", description=__doc__)
    parser.add_argument("--all", action="store_true", help="the long tests too")
    parser.add_argument("--since", metavar="COMMIT", help="the long tests of what changed since then")
    options = parser.parse_args()
    try:
        choice = tiers.choose(everything=options.all, since=options.since)
    except tiers.UnknownCommitError as error:
        sys.exit(f"SINCE={options.since}: {error}")
    plan = Plan(choice, everything=options.all, since=options.since)
    with tempfile.TemporaryDirectory(prefix="gpushare-tests-") as name, _more_instances():
        sys.exit(_run(plan, Path(name)))


def _run(plan: Plan, folder: Path) -> int:
    os.environ.setdefault(results.FOLDER, str(folder / "results"))
    began, stopped = time.monotonic(), ""
    with jobs.contained() as started:
        run = SuiteRun(plan, folder, started)
        try:
            asyncio.run(run.all())
        except* jobs.StoppedError as reason:
            stopped = str(reason.exceptions[0])
        left = [] if stopped else jobs.described(jobs.descendants())
    found = results.read(Path(os.environ[results.FOLDER]))
    outcome = report.SuiteOutcome(run.ended, found, plan.choice, left, stopped, time.monotonic() - began)
    print(*outcome.lines, sep="\n", flush=True)  # noqa: T201 - the output of the command
    return outcome.status


if __name__ == "__main__":
    main()
