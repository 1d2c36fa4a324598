"""Finds and kills processes that a testbed left behind, and never any other process.

What belongs here: pid files, reading /proc, and identifying leftovers. What does not: processes of a
running testbed (``devkit.process``).
"""

import json
import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

MARK = "GPUSHARE_TESTBED"
"""Environment variable of every process of a testbed: the folder of the testbed."""
_PROC = Path("/proc")
_KILL_MS = 10_000


@dataclass(frozen=True)
class PidRecord:
    """The content of a pid file. A PID is reused; a PID with start time and boot ID is unique."""

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True)
class ProcEntry:
    """One process in /proc; ``marked`` if its environment has ``MARK`` with the folder of the testbed."""

    pid: int
    session: int
    start_ticks: int
    marked: bool


def leftovers(record: PidRecord, table: Iterable[ProcEntry], boot_id: str) -> list[ProcEntry]:
    """Return the running processes of a record: the process itself and the children in its session.

    Empty after a reboot of the machine, or if the PID now belongs to another process.
    """
    if record.boot_id != boot_id:
        return []
    session = [entry for entry in table if entry.session == record.pid]
    leader = next((entry for entry in session if entry.pid == record.pid), None)
    if leader and leader.start_ticks != record.start_ticks:
        return []
    return [entry for entry in session if entry is leader or entry.marked]


@dataclass(frozen=True)
class Stat:
    """Fields of ``/proc/<pid>/stat``: state letter, group, session, start time in ticks since boot."""

    state: str
    group: int
    session: int
    start_ticks: int


def parse_stat(text: str) -> Stat:
    """Parse the content of ``/proc/<pid>/stat``."""
    # The command name is in parentheses, and may contain spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return Stat(fields[0], int(fields[2]), int(fields[3]), int(fields[19]))


def boot_id() -> str:
    """Return the ID of the current boot of the machine."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def record_of(pid: int) -> PidRecord:
    """Return the record of a running process."""
    return PidRecord(pid, _stat(pid).start_ticks, boot_id())


def state_of(pid: int) -> str:
    """Return the state letter of a running process."""
    return _stat(pid).state


def is_suspended(pid: int) -> bool:
    """Return whether all threads of a process are stopped; a signal stops them one after the other."""
    stats = (_PROC / str(pid) / "task").glob("*/stat")
    try:
        return all(parse_stat(each.read_text()).state == "T" for each in stats)
    except (FileNotFoundError, ProcessLookupError):  # a thread has exited, so that not all were stopped
        return False


def is_group_running(leader: int) -> bool:
    """Return whether a process in the group of ``leader`` has not ended; zombies have."""
    for path in _PROC.glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            stat = parse_stat(path.read_text())
            if stat.group == leader and stat.state not in "ZX":
                return True
    return False


def write(path: Path, record: PidRecord) -> None:
    """Write a pid file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(record)))


def read(path: Path) -> PidRecord | None:
    """Return the record of a pid file, or None if it cannot be read."""
    try:
        return PidRecord(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def running(folder: Path) -> dict[str, list[ProcEntry]]:
    """Return the running processes of a testbed by name of the pid file, without names that have none."""
    table = _table(folder)
    boot = boot_id()
    found = {}
    for path in sorted((folder / "pids").glob("*.json")):
        record = read(path)
        if record and (entries := leftovers(record, table, boot)):
            found[path.stem] = entries
    return found


def sweep(folder: Path) -> list[str]:
    """Kill the leftover processes of a testbed, remove its pid files, and return their names."""
    found = running(folder)
    # Sorted by name, etcd and the API server come first; killed first, they would cause errors in other logs.
    for name in reversed(found):
        for entry in found[name]:
            _kill(entry)
    for path in (folder / "pids").glob("*.json"):
        path.unlink(missing_ok=True)
    return list(found)


def end_session(leader: int, folder: Path) -> None:
    """Kill the remaining processes in the session of ``leader``, a process of the testbed in ``folder``."""
    for entry in _table(folder):
        if entry.session == leader and entry.marked:
            _kill(entry)


def _table(folder: Path) -> list[ProcEntry]:
    mark = f"{MARK}={folder}".encode()
    return [entry for path in _PROC.glob("[0-9]*") if (entry := _entry(path, mark))]


def _entry(path: Path, mark: bytes) -> ProcEntry | None:
    try:
        stat = parse_stat((path / "stat").read_text())
        environment = (path / "environ").read_bytes()
    except OSError:
        return None
    if stat.state in "ZX":
        return None
    return ProcEntry(int(path.name), stat.session, stat.start_ticks, mark in environment.split(b"\0"))


def _stat(pid: int) -> Stat:
    return parse_stat((_PROC / str(pid) / "stat").read_text())


def _kill(entry: ProcEntry) -> None:
    with suppress(ProcessLookupError, FileNotFoundError):
        descriptor = os.pidfd_open(entry.pid)
        try:
            # The descriptor pins the process, so that its identity can be checked without a race.
            if _stat(entry.pid).start_ticks == entry.start_ticks:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                _await_end(descriptor)
        finally:
            os.close(descriptor)


def _await_end(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll(_KILL_MS)
