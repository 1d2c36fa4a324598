"""The processes of a static pod as the host sees them, and what its containers wrote last.

Runs on the target: standard library only, Python 2.7 to 3.x. What does not belong here: waiting and HTTP
(the module static_pod_health).
"""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import glob
import io
import os

_START_TIME = 19
"""Of /proc/PID/stat, counted from behind the program's name, which may have blanks."""
_LINES = 8


def processes(program, argument="", proc="/proc"):
    """The processes of a program whose command line has that argument, as ``PID@START``, oldest first.

    The start is in ticks since boot, so that no later process is ever taken for an earlier one.
    """
    found = []
    for folder in glob.glob(os.path.join(proc, "[0-9]*")):
        words = _read(os.path.join(folder, "cmdline")).split("\0")
        if os.path.basename(words[0]) != program or (argument and argument not in words):
            continue
        fields = _read(os.path.join(folder, "stat")).rpartition(")")[2].split()
        # A process that ends while it is read, or that nobody has waited for yet.
        if len(fields) > _START_TIME and fields[0] != "Z":
            found.append((int(fields[_START_TIME]), os.path.basename(folder)))
    return ["{0}@{1}".format(pid, start) for start, pid in sorted(found)]


def last_words(pattern):
    """The last lines of the newest log file, without the columns that the container runtime adds."""
    files = sorted(glob.glob(pattern), key=os.path.getmtime)
    lines = _read(files[-1]).splitlines() if files else []
    return [_message(line) for line in lines[-_LINES:]]


def _message(line):
    """Of ``2026-01-01T00:00:00.0Z stderr F message``."""
    stream, _, rest = line.partition(" ")[2].partition(" ")
    return rest.partition(" ")[2] if stream in ("stdout", "stderr") else line


def _read(path):
    try:
        with io.open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (IOError, OSError):
        return ""
