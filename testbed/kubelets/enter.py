"""Runs a program in the namespaces and cgroups of a node, as a child process.

Run as a script: ``enter.py PID_FILE CGROUP_FILES PROGRAM [ARGUMENT…]``; the pid file is that of the first
process of the node, which has its namespaces, and the files (a glob pattern) move a process into its cgroups.
What belongs here: the calls between fork and exec. It imports nothing of the testbed, because it starts once
for every process.

A process cannot move itself into another PID namespace, only its children. This parent ignores signals to
the process group, so that the program handles them, and exits with the status of the program.
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_NAMESPACES = ("cgroup", "uts", "net", "pid_for_children", "mnt")
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> None:
    """Enter the node, run the program, and exit with its status; does not return."""
    pid_file, files, program = Path(arguments[0]), arguments[1], arguments[2:]
    holder = json.loads(pid_file.read_text())["pid"]
    folder = Path.cwd()
    _join(Path("/").glob(files.lstrip("/")))
    # All are opened before the first is entered: the mount namespace hides the paths of the others.
    for descriptor in [os.open(f"/proc/{holder}/ns/{name}", os.O_RDONLY) for name in _NAMESPACES]:
        if _LIBC.setns(descriptor, 0):
            raise OSError(ctypes.get_errno(), f"cannot enter the node of process {holder}")
        os.close(descriptor)
    os.chdir(folder)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        _become(program)
    _end_like(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _join(files: Iterable[Path]) -> None:
    for file in files:
        file.write_text("0")


def _become(program: list[str]) -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)  # noqa: S606
    except OSError as error:
        print(f"{program[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        os._exit(127)


def _end_like(code: int) -> None:
    if code < 0:
        # SIGKILL has no handler to set.
        with suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
