"""Finding and ending processes that a bed left behind, without ever hitting somebody else's.

What belongs here: pid files, the reading of /proc, and the decision what is a leftover. What does
not: processes of a bed that is alive (``testbed.system.process``).
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
"""Environment variable of every process of a bed: the bed's folder."""
_PROC = Path("/proc")
_KILL_MS = 10_000


@dataclass(frozen=True)
class Record:
    """What a pid file says. A pid is reused; a pid with its start time and boot is not."""

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True)
class Entry:
    """One process as /proc shows it; ``marked`` says that it carries the bed's mark."""

    pid: int
    session: int
    start_ticks: int
    marked: bool


def leftovers(record: Record, table: Iterable[Entry], boot_id: str) -> list[Entry]:
    """Return what still runs of a recorded process: itself and the children in its session.

    Nothing where the machine was booted since, or where the pid now belongs to another process.
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
    """Of a /proc stat line: state letter, session, start time in ticks since boot."""

    state: str
    session: int
    start_ticks: int


def parse_stat(text: str) -> Stat:
    """Read the content of ``/proc/<pid>/stat``."""
    # The command name is in brackets and may hold spaces and brackets itself.
    fields = text.rpartition(")")[2].split()
    return Stat(fields[0], int(fields[3]), int(fields[19]))


def boot_id() -> str:
    """Return the identity of the machine's current boot."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def record_of(pid: int) -> Record:
    """Return the record of a process that runs now."""
    return Record(pid, _stat(pid).start_ticks, boot_id())


def state_of(pid: int) -> str:
    """Return the state letter of a process that runs now."""
    return _stat(pid).state


def stands_still(pid: int) -> bool:
    """Whether all threads of a process are stopped by a signal, which they heed one after the other."""
    stats = (_PROC / str(pid) / "task").glob("*/stat")
    try:
        return all(parse_stat(each.read_text()).state == "T" for each in stats)
    except (FileNotFoundError, ProcessLookupError):  # a thread has ended, so not all of them stood still
        return False


def write(path: Path, record: Record) -> None:
    """Write a pid file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(record)))


def read(path: Path) -> Record | None:
    """Return a pid file's record, or None where there is none that can be read."""
    try:
        return Record(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def running(folder: Path) -> dict[str, list[Entry]]:
    """Return what runs of a bed, by the name of the pid file; names without a process have no entry."""
    table = _table(folder)
    boot = boot_id()
    found = {}
    for path in sorted((folder / "pids").glob("*.json")):
        record = read(path)
        if record and (entries := leftovers(record, table, boot)):
            found[path.stem] = entries
    return found


def sweep(folder: Path) -> list[str]:
    """Kill what a bed left running, remove its pid files, and return the names of what was killed."""
    found = running(folder)
    # In the order of names, those that others depend on come first; the others would log their fall.
    for name in reversed(found):
        for entry in found[name]:
            _kill(entry)
    for path in (folder / "pids").glob("*.json"):
        path.unlink(missing_ok=True)
    return list(found)


def end_session(leader: int, folder: Path) -> None:
    """Kill what is left of one process of a bed and its descendants, the session that it led."""
    for entry in _table(folder):
        if entry.session == leader and entry.marked:
            _kill(entry)


def _table(folder: Path) -> list[Entry]:
    mark = f"{MARK}={folder}".encode()
    return [entry for path in _PROC.glob("[0-9]*") if (entry := _entry(path, mark))]


def _entry(path: Path, mark: bytes) -> Entry | None:
    try:
        stat = parse_stat((path / "stat").read_text())
        environment = (path / "environ").read_bytes()
    except OSError:
        return None
    if stat.state in "ZX":
        return None
    return Entry(int(path.name), stat.session, stat.start_ticks, mark in environment.split(b"\0"))


def _stat(pid: int) -> Stat:
    return parse_stat((_PROC / str(pid) / "stat").read_text())


def _kill(entry: Entry) -> None:
    with suppress(ProcessLookupError, FileNotFoundError):
        descriptor = os.pidfd_open(entry.pid)
        try:
            # The descriptor keeps its process; only now is it certain which one that is.
            if _stat(entry.pid).start_ticks == entry.start_ticks:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                _await_end(descriptor)
        finally:
            os.close(descriptor)


def _await_end(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll(_KILL_MS)
