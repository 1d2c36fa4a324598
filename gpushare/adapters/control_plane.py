"""The host of a control plane, from one of its processes: the ``Host`` of ``kubescheduler.edit``.

What does not belong here: the edit.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare.adapters.files import read_file, remove_file, replace_file
from gpushare.adapters.static_pods import last_log_lines, problem_of, processes, starts, unverified
from gpushare.errors import ConfigError, cause_of
from gpushare.kubescheduler.host import HostFile, Observation, Target
from gpushare.kubescheduler.static_pod import PROGRAM

_LOGS: Final = "/var/log/pods"
_ANSWER_S: Final = 5.0
_PERMISSIONS: Final = 0o7777


@dataclass(frozen=True, slots=True)
class LocalHost:
    """``root`` is where the file system of the host is mounted; ``report`` tells the user what was done."""

    root: Path
    report: Callable[[str], None]

    def at(self, path: str) -> Path:
        """Return the path below ``root``."""
        return self.root / path.lstrip("/")

    def read(self, path: str) -> HostFile | None:
        """As the port says; the file must be UTF-8."""
        content = read_file(self.at(path))
        if content is None:
            return None
        try:
            return HostFile(content.decode(), self.at(path).stat().st_mode & _PERMISSIONS)
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not text: {cause_of(error)}") from error

    def replace(self, path: str, file: HostFile, folder_mode: int) -> bool:
        """As the port says; the content is on disk when this returns."""
        content, place = file.text.encode(), self.at(path)
        if read_file(place) == content:
            return False
        try:
            place.parent.mkdir(mode=folder_mode, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot create {place.parent}: {error.strerror}") from error
        replace_file(place, content, mode=file.mode)
        return True

    def remove(self, path: str) -> bool:
        """As the port says."""
        return remove_file(self.at(path))

    def observe(self, target: Target) -> Observation:
        """As the port says; without a process no URL is asked."""
        logs = self.at(_LOGS)
        begun = starts(logs, target.pod)
        found = processes(PROGRAM, target.words)
        problem = _first_problem(target) if found else ""
        return Observation(found, begun, problem, last_log_lines(logs, target.pod))

    def now(self) -> float:
        """As the port says."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """As the port says."""
        time.sleep(seconds)


def _first_problem(target: Target) -> str:
    """Return the problem of the first group in which no URL answers 200."""
    for group in target.urls:
        problems = [problem_of(url, unverified(), timeout_s=_ANSWER_S) for url in group]
        if all(problems):
            return "; ".join(problems)
    return ""
