"""What a host shows of a static pod: its processes, the answers of its URLs, its last log lines.

What does not belong here: waiting, and what the manifest says (``model.static_pod``, ``model.pod_health``).
"""

import ssl
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_START_TIME: Final = 19
"""Of /proc/PID/stat, counted from behind the program's name, which may have blanks (proc(5))."""
_LINES: Final = 5
_HTTPS_PORT: Final = 443
_HTTP_PORT: Final = 80


def processes(program: str, words: Sequence[str], proc: Path = Path("/proc")) -> frozenset[str]:
    """The processes of a program whose command line ends in these words, as ``PID@START``.

    The start is in ticks since boot, so that no later process is taken for an earlier one.
    """
    found = ((folder.name, _start(folder, program, words)) for folder in proc.glob("[0-9]*"))
    return frozenset(f"{pid}@{start}" for pid, start in found if start)


def _start(folder: Path, program: str, words: Sequence[str]) -> str:
    """Empty for another process, for one that has ended, and for one that nobody has waited for yet."""
    command = _text(folder / "cmdline").removesuffix("\0").split("\0")
    if Path(command[0]).name != program or command[len(command) - len(words) :] != list(words):
        return ""
    fields = _text(folder / "stat").rpartition(")")[2].split()
    return fields[_START_TIME] if len(fields) > _START_TIME and fields[0] != "Z" else ""


def unverified() -> ssl.SSLContext:
    """For servers whose certificate nobody has signed, such as kube-scheduler's on loopback."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def problem_of(url: str, tls: ssl.SSLContext, *, timeout_s: float, server_name: str | None = None) -> str:
    """Why a GET of the URL is not answered with 200; empty where it is. Proxies are not used.

    ``server_name`` is the name in the server's certificate, where the URL has another.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    host = parts.hostname or ""
    port = parts.port or (_HTTPS_PORT if secure else _HTTP_PORT)
    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.connect()
        if secure:
            connection.sock = tls.wrap_socket(connection.sock, server_hostname=server_name or host)
        connection.request("GET", parts.path or "/")
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        return f"{url}: {error or type(error).__name__}"
    finally:
        connection.close()
    return "" if status == HTTPStatus.OK else f"{url}: HTTP {status}"


def last_log_lines(pods: Path, pod: str) -> list[str]:
    """The end of the newest log of a static pod, without the columns that the container runtime adds.

    ``pods`` is the kubelet's folder of logs, ``pod`` is ``<namespace>_<name>``.
    """
    logs = sorted(pods.glob(f"{pod}-*/*/*.log"), key=_changed)
    return [_message(line) for line in _text(logs[-1]).splitlines()[-_LINES:]] if logs else []


def _changed(path: Path) -> float:
    """Zero for a link to nothing, or a file that was removed meanwhile."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _message(line: str) -> str:
    """Of ``2026-01-01T00:00:00.0Z stderr F message``."""
    stream, _, rest = line.partition(" ")[2].partition(" ")
    return rest.partition(" ")[2] if stream in ("stdout", "stderr") else line


def _text(path: Path) -> str:
    """Empty where it cannot be read: processes and logs come and go."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
