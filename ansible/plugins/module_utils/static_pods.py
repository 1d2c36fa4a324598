# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a host shows of a static pod: processes, starts, the last lines of its log, answers of URLs.

Runs on the target: standard library only, Python 2.7 to 3.x. What does not belong here: waiting and judging,
which the controller does.
"""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import glob
import io
import os
import ssl

try:
    from http.client import HTTPConnection, HTTPException
    from urllib.parse import urlsplit
except ImportError:
    from httplib import HTTPConnection, HTTPException
    from urlparse import urlsplit

_START_TIME = 19
"""Index in /proc/PID/stat, counted after the program name, which may contain spaces."""
_LINES = 8
_OK = 200


def processes(program, words, proc="/proc"):
    """Return the processes of a program with a command line that ends in ``words``, as ``PID@START``.

    START is in clock ticks since boot and distinguishes processes with a reused PID.
    """
    found = []
    for folder in glob.glob(os.path.join(proc, "[0-9]*")):
        text = _read(os.path.join(folder, "cmdline"))
        command = text[: -len("\0")].split("\0")
        if os.path.basename(command[0]) != program or command[len(command) - len(words) :] != words:
            continue
        fields = _read(os.path.join(folder, "stat")).rpartition(")")[2].split()
        # Skip a process that exits meanwhile, and a zombie.
        if len(fields) > _START_TIME and fields[0] != "Z":
            found.append("{0}@{1}".format(os.path.basename(folder), fields[_START_TIME]))
    return sorted(found)


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


def problem_of(url, tls, timeout_s):
    """Return why a GET of the URL does not return 200, "" if it does. Proxies are not used.

    ``tls`` has ``ca_file``, ``cert_file``, ``key_file`` and ``server_name``, or None for each. Without a CA,
    certificates are not verified.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    connection = HTTPConnection(parts.hostname, parts.port or (443 if secure else 80), timeout=timeout_s)
    try:
        connection.connect()
        if secure:
            name = tls["server_name"] or parts.hostname
            connection.sock = _context(tls).wrap_socket(connection.sock, server_hostname=name)
        connection.request("GET", parts.path or "/")
        status = connection.getresponse().status
    except (IOError, OSError, HTTPException) as error:
        return "{0}: {1}".format(url, getattr(error, "strerror", None) or error)
    finally:
        connection.close()
    return "" if status == _OK else "{0}: HTTP {1}".format(url, status)


def _context(tls):
    context = ssl.create_default_context(cafile=tls["ca_file"])
    if not tls["ca_file"]:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls["cert_file"]:
        context.load_cert_chain(tls["cert_file"], tls["key_file"])
    return context


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
