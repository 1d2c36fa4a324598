"""Processes of a static pod on the host, its starts, and the last lines of its log.

Runs on the target: standard library only, Python 2.7 to 3.x. What does not belong here: waiting and HTTP
(the module static_pod_health).
"""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import glob
import io
import os

_START_TIME = 19
"""Index in /proc/PID/stat, counted after the program name, which may contain spaces."""
_LINES = 8


def processes(program, argument="", proc="/proc"):
    """Return the processes of a program with that argument, as ``PID@START``, oldest first.

    START is in clock ticks since boot and distinguishes processes with a reused PID.
    """
    found = []
    for folder in glob.glob(os.path.join(proc, "[0-9]*")):
        words = _read(os.path.join(folder, "cmdline")).split("\0")
        if os.path.basename(words[0]) != program or (argument and argument not in words):
            continue
        fields = _read(os.path.join(folder, "stat")).rpartition(")")[2].split()
        # Skip a process that exits meanwhile, and a zombie.
        if len(fields) > _START_TIME and fields[0] != "Z":
            found.append((int(fields[_START_TIME]), os.path.basename(folder)))
    return ["{0}@{1}".format(pid, start) for start, pid in sorted(found)]


def starts(pattern):
    """Return how often the pod was started, by the folder of its logs.

    The kubelet numbers the logs in a folder by start, from 0. A changed pod has a new folder. A start counts
    from its first line on: the log exists before the process does.
    """
    found = {}
    for path in _written(pattern):
        folder, name = os.path.split(path)
        number = name.partition(".")[0]
        if number.isdigit():
            found[folder] = max(found.get(folder, 0), int(number) + 1)
    return found


def last_lines(pattern):
    """Return the last lines of the newest log with lines, without the columns of the container runtime."""
    files = sorted(_written(pattern), key=_changed)
    lines = _read(files[-1]).splitlines() if files else []
    return [_message(line) for line in lines[-_LINES:]]


def _written(pattern):
    return [each for each in glob.glob(pattern) if _status(each)[0]]


def _changed(path):
    return _status(path)[1]


def _status(path):
    """Return size and modification time; zeros for a dangling link or a removed file."""
    try:
        found = os.stat(path)
    except (IOError, OSError):
        return 0, 0.0
    return found.st_size, found.st_mtime


def _message(line):
    """Return the message of ``2026-01-01T00:00:00.0Z stderr F message``."""
    stream, _, rest = line.partition(" ")[2].partition(" ")
    return rest.partition(" ")[2] if stream in ("stdout", "stderr") else line


def _read(path):
    try:
        with io.open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (IOError, OSError):
        return ""
