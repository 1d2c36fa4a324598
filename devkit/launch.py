"""Executes a program that the kernel kills when its parent exits.

Run as a script: ``launch.py PARENT_PID PROGRAM [ARGUMENT…]``. What belongs here: the calls between fork
and exec that are unsafe in a parent with threads. It imports nothing of the testbed, because it starts
once for every process.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Request SIGKILL for the exit of the parent, then execute the program; does not return."""
    parent, program = int(arguments[0]), arguments[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        # The parent exited before the call above, so that no signal will come.
        sys.exit(1)
    os.execv(program[0], program)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
