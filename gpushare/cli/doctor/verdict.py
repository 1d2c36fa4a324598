"""What a check returns, and helpers that all checks use. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from gpushare.cli.doctor.installation import NotReadError, Unread

T = TypeVar("T")


class Status(StrEnum):
    """``unknown``: something could not be read. Only ``failed`` makes the exit code 1."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The status, its cause in one sentence, and the next command, empty if there is nothing to do.

    ``right`` is the right without which it is unknown, empty if it has another cause.
    """

    status: Status
    cause: str
    command: str = ""
    right: str = ""


def ok(cause: str) -> CheckVerdict:
    """Nothing to do."""
    return CheckVerdict(Status.OK, cause)


def warning(cause: str, command: str = "") -> CheckVerdict:
    """It works, but less well than it could."""
    return CheckVerdict(Status.WARNING, cause, command)


def failed(cause: str, command: str = "") -> CheckVerdict:
    """Pods fail, stay pending, or are not protected as configured."""
    return CheckVerdict(Status.FAILED, cause, command)


def unknown(cause: str, command: str = "") -> CheckVerdict:
    """It could not be checked."""
    return CheckVerdict(Status.UNKNOWN, cause, command)


def unread(found: Unread, command: str = "") -> CheckVerdict:
    """The verdict for something that could not be read, with the missing right."""
    right = f"; this account needs the right to {found.right}" if found.right else ""
    return CheckVerdict(Status.UNKNOWN, f"{found.reason}{right}", command, found.right)


@dataclass(frozen=True, slots=True)
class Check(Generic[T]):
    """One check: its name for programs, its title, and the judgement of what it examines."""

    name: str
    title: str
    judge: Callable[[T], CheckVerdict]

    def run(self, facts: T) -> CheckVerdict:
        """The judgement; unknown if something that it needs could not be read."""
        try:
            return self.judge(facts)
        except NotReadError as error:
            return unread(error.found)


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A check and its verdict."""

    check: Check[Any]
    verdict: CheckVerdict


def check(name: str, title: str) -> Callable[[Callable[[T], CheckVerdict]], Check[T]]:
    """Return a decorator that makes a check of its judgement."""
    return lambda judge: Check(name, title, judge)
