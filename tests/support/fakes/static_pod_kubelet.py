"""A FAKE of the kubelet of a control plane: runs kube-scheduler as its static pod specifies.

No container is created. What belongs here: starting and stopping that process. What does not: the program,
which tests choose.
"""

import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from testbed.control_plane.pki import Authority

_LOOK_S: Final = 0.1
_BACKOFF_S: Final = 1.0
"""Before the third start and later ones; the real kubelet waits 10 s, and longer each time."""
_LOGS: Final = "var/log/pods"
_FAKE: Final = str(Path(__file__).with_name("kube_scheduler.py"))

Command = Callable[[list[str]], dict[str, Any]]
"""Maps the command of the container to the arguments of ``subprocess.Popen``."""


def fake_scheduler(root: Path, folder: Path) -> Command:
    """The fake of kube-scheduler, with the files under ``root``."""
    pair = Authority.create("ca").server("scheduler", ["127.0.0.1"])
    cert = folder / "scheduler.pem"
    cert.write_bytes(pair.cert + pair.key)

    def command(argv: list[str]) -> dict[str, Any]:
        return {
            "args": [argv[0], _FAKE, *argv[1:]],
            "executable": sys.executable,
            "env": {"ROOT": str(root), "CERT": str(cert)},
        }

    return command


@contextmanager
def kubelet(manifest: Path, root: Path, command: Command) -> Iterator[None]:
    """Run the program of the manifest in this context, with its log where the kubelet writes it."""
    end = threading.Event()
    thread = threading.Thread(target=_run, args=(manifest, root / _LOGS, command, end))
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _run(manifest: Path, logs: Path, command: Command, end: threading.Event) -> None:
    text, starts, ended_at = "", 0, 0.0
    child: subprocess.Popen[Any] | None = None
    while not end.wait(_LOOK_S):
        wanted = manifest.read_text()
        if child and (wanted != text or child.poll() is not None):
            _end(child)
            child, ended_at = None, time.monotonic()
        if wanted != text:
            text, starts = wanted, 0
        if child is None and (starts < 2 or time.monotonic() - ended_at >= _BACKOFF_S):
            child = _start(text, _log(logs, text, starts), command)
            starts += 1
    if child:
        _end(child)


def _log(logs: Path, text: str, number: int) -> Path:
    """The log of a start. The folder has the UID of the pod, which depends on the manifest."""
    uid = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return logs / f"kube-system_kube-scheduler-standin_{uid}" / "kube-scheduler" / f"{number}.log"


def _start(text: str, log: Path, command: Command) -> subprocess.Popen[Any]:
    pod: Mapping[str, Any] = yaml.safe_load(text)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        argv = pod["spec"]["containers"][0]["command"]
        return subprocess.Popen(stdout=file, stderr=file, **command(argv))


def _end(child: subprocess.Popen[Any]) -> None:
    child.terminate()
    child.wait()
