"""The program that runs the molecule scenarios, as a process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from devkit import pids

PROGRAM = """
import subprocess
from tools.molecule import interrupt_on_termination
interrupt_on_termination()
child = subprocess.Popen(["sleep", "60"])
print(child.pid, flush=True)
child.wait()
"""


@contextmanager
def started(*prefix: str) -> Iterator["subprocess.Popen[str]"]:
    """The program in a new session, of which nothing is left."""
    argv = [*prefix, sys.executable, "-c", PROGRAM]
    with subprocess.Popen(  # noqa: S603 - the program above
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as run:
        try:
            yield run
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)


@pytest.mark.parametrize("prefix", [(), ("env", "--ignore-signal=INT,QUIT")], ids=["terminal", "background"])
def test_a_terminated_run_ends_as_if_it_was_interrupted_with_its_children(prefix: tuple[str, ...]) -> None:
    with started(*prefix) as run:
        assert run.stdout is not None
        child = int(run.stdout.readline())
        run.send_signal(signal.SIGTERM)
        assert run.wait(30) == -signal.SIGINT
        assert not Path(f"/proc/{child}").exists() or pids.state_of(child) == "Z"
