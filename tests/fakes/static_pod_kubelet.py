"""A FAKE of the kubelet of a control plane: runs kube-scheduler as its static pod specifies.

No container is created. What belongs here: starting and stopping that process. What does not: the program,
which tests choose.
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from testbed.control_plane.pki import Authority

_LOOK_S: Final = 0.1
_LOG: Final = "var/log/pods/kube-system_kube-scheduler-standin/kube-scheduler/0.log"
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
    log = root / _LOG
    log.parent.mkdir(parents=True)
    thread = threading.Thread(target=_run, args=(manifest, log, command, end))
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _run(manifest: Path, log: Path, command: Command, end: threading.Event) -> None:
    pod: Mapping[str, Any] = {}
    child: subprocess.Popen[Any] | None = None
    while not end.wait(_LOOK_S):
        wanted = yaml.safe_load(manifest.read_text())
        if child and (wanted != pod or child.poll() is not None):
            _end(child)
            child = None
        if child is None:
            pod = wanted
            with log.open("ab") as file:
                argv = pod["spec"]["containers"][0]["command"]
                child = subprocess.Popen(stdout=file, stderr=file, **command(argv))
    if child:
        _end(child)


def _end(child: subprocess.Popen[Any]) -> None:
    child.terminate()
    child.wait()
