"""``make test`` runs every step, reports all failures, and leaves no process, with a FAKE of make."""

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.waiting import until
from tools.suite import results

ROOT = Path(__file__).parents[2]
SHORT = {
    *("check", "test-cli", "test-ansible", "test-isolation", "test-gpu", "lint-ansible", "docs"),
    *("programs", "images", "test-integration", "test-molecule"),
}
LONG = (SHORT - {"programs"}) | {"programs-all", "programs-next", "test-k8s-next"}
MAKE = """\
#!/bin/sh
cd "${0%/*}"
echo "$@" >>"ran-$2"
[ ! -e "$2" ] || . "./$2"
"""
"""Notes what it was called with, and runs what a test gives a target to do."""
LASTING = (
    "setsid sleep 100 & echo $! >>pids; sleep 100 & echo $! >>pids; echo $$ >>pids; touch started; wait\n"
)
"""Like a build: one of its children is in another session."""
DEAF = "trap '' INT TERM HUP; " + LASTING

PROGRAM = "from tools.suite import jobs, run; jobs.GRACE_S = 1; run.main()"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the fake."""
    make = tmp_path / "make"
    make.write_text(MAKE)
    make.chmod(0o755)
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts a run; kills it at the end if it still runs."""
    runs: list[subprocess.Popen[str]] = []

    def started(*flags: str, **options: Any) -> "subprocess.Popen[str]":
        path = f"{folder}:{os.environ['PATH']}"
        # A run that is killed leaves its logs.
        env = {**os.environ, "PATH": path, "TMPDIR": str(folder), results.FOLDER: str(folder / "results")}
        argv = [sys.executable, "-c", PROGRAM, *flags]
        options.setdefault("preexec_fn", functools.partial(handled, signal.SIG_DFL))
        options |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "cwd": ROOT, "env": env}
        runs.append(subprocess.Popen(argv, text=True, **options))  # noqa: S603 - our own program
        return runs[-1]

    yield started
    for run in runs:
        run.kill()
        run.communicate()


def handled(handler: signal.Handlers) -> None:
    """Like the parent of a run: a shell ignores signals for its background jobs, nohup ignores SIGHUP."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, handler)


def ran(folder: Path) -> Mapping[str, str]:
    """The arguments of make by target."""
    return {each.name.removeprefix("ran-"): each.read_text() for each in folder.glob("ran-*")}


def alive(folder: Path) -> list[int]:
    """The processes that a step started, and that still run."""
    pids = map(int, (folder / "pids").read_text().split())
    return [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]


@pytest.mark.parametrize(("flags", "targets"), [((), SHORT), (("--all",), LONG)])
def test_the_tiers_run_their_steps(
    folder: Path, start: Start, flags: tuple[str, ...], targets: set[str]
) -> None:
    run = start(*flags)
    output = run.communicate(timeout=60)[0]
    assert run.returncode == 0, output
    assert {*ran(folder)} == targets
    assert ("SHORT=1" in ran(folder)["test-integration"]) is (targets == SHORT)
    assert ("SCENARIO=site\n" in ran(folder)["test-molecule"]) is (targets == SHORT)
    assert ("== left out: make test-all runs them" in output) is (targets == SHORT)


def test_all_steps_run_after_a_failed_one_and_all_failures_are_printed_at_the_end(
    folder: Path, start: Start
) -> None:
    for target in ("check", "docs", "programs"):
        (folder / target).write_text(f"echo reason of {target}; exit 3\n")
    step = "echo dots; echo '=== FAILURES ==='; echo reason of a test; exit 1\n"
    (folder / "test-integration").write_text(step)
    run = start()
    output = run.communicate(timeout=60)[0]
    assert run.returncode == 1
    assert {*ran(folder)} == SHORT
    end = output[output.index("\n== ") :]
    for target in ("check", "docs", "programs"):
        assert f"\nreason of {target}\n" in end
    assert "\nreason of a test\n" in end
    assert "\ndots\n" not in end
    assert "\nwhat ran" in end
    _, _, failed = end.splitlines()[-1].partition("Failed: ")
    assert sorted(failed.split(", ")) == ["check", "docs", "programs", "test-integration"]


@pytest.mark.parametrize("step", [LASTING, DEAF])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_stopped_run_leaves_no_process(
    folder: Path, start: Start, step: str, number: signal.Signals
) -> None:
    (folder / "check").write_text(step)
    run = start()
    await until((folder / "started").exists)
    run.send_signal(number)
    output = run.communicate(timeout=90)[0]
    assert run.returncode == 130
    assert output.splitlines()[-1] == f"Stopped by {number.name}; not all steps have run."
    assert alive(folder) == []


async def test_a_run_that_is_killed_leaves_no_step(folder: Path, start: Start) -> None:
    (folder / "check").write_text("echo $$ >>pids; touch started; exec sleep 100\n")
    run = start()
    await until((folder / "started").exists)
    run.kill()
    run.wait()
    await until(lambda: alive(folder) == [])


async def test_a_background_job_of_a_script_handles_interrupts_and_so_do_its_steps(
    folder: Path, start: Start
) -> None:
    (folder / "check").write_text(f"exec {sys.executable} -c 'import signal; print(signal.getsignal(2))'\n")
    run = start(preexec_fn=functools.partial(handled, signal.SIG_IGN), start_new_session=True)
    output = run.communicate(timeout=60)[0]
    assert "default_int_handler" in output


def test_what_a_step_leaves_running_is_ended_and_a_failure(folder: Path, start: Start) -> None:
    (folder / "test-cli").write_text("setsid sleep 100 & echo $! >>pids\n")
    run = start()
    output = run.communicate(timeout=60)[0]
    assert run.returncode == 1
    assert "sleep 100" in output.partition("== processes that tests left running")[2]
    assert alive(folder) == []


def test_the_error_for_an_unknown_commit_names_it(start: Start) -> None:
    run = start("--since=nothing", stderr=subprocess.STDOUT)
    output = run.communicate(timeout=60)[0]
    assert run.returncode == 1
    assert output.startswith("SINCE=nothing: ")
    assert len(output.splitlines()) == 1
