"""The number of files of tests that run at once."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.slots import Slots


class AllTakenError(Exception):
    pass


def refuse() -> None:
    raise AllTakenError


class Process(Protocol):
    def __call__(self, *, pause: Callable[[], None] = refuse) -> Slots: ...


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    """Makes the view of one process on two slots, ``0`` and ``1``."""
    for name in ("0", "1"):
        (tmp_path / name).touch()
    made: list[Slots] = []

    def make(*, pause: Callable[[], None] = refuse) -> Slots:
        made.append(Slots(tmp_path, pause=pause))
        return made[-1]

    yield make
    for each in made:
        each.release()


def test_no_more_processes_run_than_there_are_slots(process: Process) -> None:
    first, second, third = process(), process(), process()
    first.take()
    second.take()
    with pytest.raises(AllTakenError):
        third.take()
    first.release()
    third.take()


def test_a_process_takes_one_slot(process: Process) -> None:
    first, second = process(), process()
    first.take()
    first.take()
    second.take()


def test_a_process_that_waits_gets_the_next_slot(process: Process) -> None:
    first, second = process(), process()
    first.take()
    second.take()
    waiting = process(pause=first.release)
    waiting.take()
    with pytest.raises(AllTakenError):
        first.take()


def test_a_program_under_flock_finds_the_slot_of_a_process_taken(process: Process, tmp_path: Path) -> None:
    process().take()
    command = ["flock", "--nonblock", str(tmp_path / "0"), "true"]
    assert subprocess.run(command, check=False).returncode == 1  # noqa: S603 - no input


def test_without_a_folder_there_is_no_limit() -> None:
    free = Slots(None)
    free.take()
    free.release()
