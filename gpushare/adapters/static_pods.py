"""Observable state of a static pod on its host: processes, health URLs, starts, last log lines.

Waiting and the manifest (``kubescheduler.static_pod``, ``kubescheduler.health``) do not belong here.
"""

import ssl
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTP_PORT, HTTPS_PORT, HTTPConnection, HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gpushare.adapters.files import text_if_any
from gpushare.adapters.pids import start_of
from gpushare.errors import cause_of

_LINES: Final = 5


def processes(program: str, words: Sequence[str], proc: Path = Path("/proc")) -> frozenset[str]:
    """Return the processes of a program with a command line that ends in ``words``, as ``PID@START``.

    The start is in ticks since boot, so that a reused PID is a different process.
    """
    pids = [int(each.name) for each in proc.glob("[0-9]*") if _runs(each, program, words)]
    return frozenset(f"{pid}@{start}" for pid in pids if (start := start_of(pid, proc)))


def _runs(process: Path, program: str, words: Sequence[str]) -> bool:
    """Whether it is the program with these words; an ended process has no command line, nor has a zombie."""
    command = text_if_any(process / "cmdline").removesuffix("\0").split("\0")
    return Path(command[0]).name == program and command[len(command) - len(words) :] == list(words)


def unverified() -> ssl.SSLContext:
    """Return a context for servers with a self-signed certificate, such as kube-scheduler on loopback."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def problem_of(url: str, tls: ssl.SSLContext, *, timeout_s: float, server_name: str | None = None) -> str:
    """Return why a GET of the URL does not return 200; empty if it does. Proxies are not used.

    ``server_name`` is the name in the server's certificate if it differs from the URL's host.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    host = parts.hostname or ""
    port = parts.port or (HTTPS_PORT if secure else HTTP_PORT)
    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.connect()
        if secure:
            connection.sock = tls.wrap_socket(connection.sock, server_hostname=server_name or host)
        connection.request("GET", parts.path or "/")
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        return f"{url}: {cause_of(error)}"
    finally:
        connection.close()
    return "" if status == HTTPStatus.OK else f"{url}: HTTP {status}"


def starts(pods: Path, pod: str) -> dict[str, int]:
    """Return how often the containers of a static pod were started, by the folder of their logs.

    The kubelet numbers the logs in a folder by start, from 0. A changed pod has new folders. A start counts
    from its first line on: the log exists before the process does. For ``pods`` and ``pod`` see
    ``last_log_lines``.
    """
    numbered = [each for each in _written(pods, pod) if each.stem.isdigit()]
    return {str(log.parent): int(log.stem) + 1 for log in sorted(numbered, key=lambda each: int(each.stem))}


def last_log_lines(pods: Path, pod: str) -> list[str]:
    """Return the last lines of a static pod's newest log, without the columns of the container runtime.

    ``pods`` is the kubelet's folder of logs, ``pod`` is ``<namespace>_<name>``. A log without lines is
    skipped.
    """
    logs = sorted(_written(pods, pod), key=_changed)
    return [_message(line) for line in text_if_any(logs[-1]).splitlines()[-_LINES:]] if logs else []


def _written(pods: Path, pod: str) -> list[Path]:
    """Return the logs of the pod's containers that have lines."""
    return [each for each in pods.glob(f"{pod}-*/*/*.log") if _status(each)[0]]


def _changed(path: Path) -> float:
    return _status(path)[1]


def _status(path: Path) -> tuple[int, float]:
    """Return size and modification time; zeros for a dangling link or a removed file."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0.0
    return found.st_size, found.st_mtime


def _message(line: str) -> str:
    """Return the message of ``2026-01-01T00:00:00.0Z stderr F message``."""
    stream, _, rest = line.partition(" ")[2].partition(" ")
    return rest.partition(" ")[2] if stream in ("stdout", "stderr") else line
