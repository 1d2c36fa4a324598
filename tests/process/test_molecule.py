"""The program that runs the molecule scenarios, as a process."""

import signal
import subprocess
import sys
from pathlib import Path

from testbed.system import pids

PROGRAM = """
import subprocess
from tools.molecule import interrupt_on_termination
interrupt_on_termination()
child = subprocess.Popen(["sleep", "60"])
print(child.pid, flush=True)
child.wait()
"""


def test_a_terminated_run_ends_as_if_it_was_interrupted_with_its_children() -> None:
    argv = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(  # noqa: S603 - the program above
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as run:
        assert run.stdout is not None
        child = int(run.stdout.readline())
        run.send_signal(signal.SIGTERM)
        assert run.wait(30) == -signal.SIGINT
    assert not Path(f"/proc/{child}").exists() or pids.state_of(child) == "Z"
