"""TCP ports for servers on this machine.

What belongs here: choosing ports, and reserving them among all testbeds of the machine. A program that is
none of theirs can still take one: a testbed then gets ``devkit.errors.PortTaken`` and retries.
"""

import fcntl
import functools
import os
import random
import socket
from collections.abc import Callable
from pathlib import Path

from devkit.errors import DevkitError

LOOPBACK = "127.0.0.1"
_LOWEST, _HIGHEST = 10_000, 29_999
"""Above are the ports of Services, some of which the examples name."""
_ATTEMPTS = 200
_FILE = Path("/tmp/gpushare-testbed-ports")  # noqa: S108 - the same for all users


class Reservations:
    """Ports of this process, until it exits: the lock of byte N of ``file`` reserves port N.

    All ports take one descriptor. The process must not open ``file`` a second time: the kernel drops all its
    locks as soon as it closes one descriptor (``man 2 fcntl``).
    """

    def __init__(self, file: Path) -> None:
        self._descriptor = _open(file)
        self._own: set[int] = set()

    def take(self, port: int) -> bool:
        """Reserve a port; return whether it was neither reserved nor in use."""
        if port in self._own:
            return False
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        # After the lock: the probe must not be in the way of a server that starts on its reserved port.
        if _is_free(port):
            self._own.add(port)
        else:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, port)
        return port in self._own


def _open(file: Path) -> int:
    try:
        return os.open(file, os.O_RDWR)
    except FileNotFoundError:
        # Only for a new file: in sticky folders, the kernel refuses O_CREAT for a file of another user.
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT)
        os.fchmod(descriptor, 0o666)
        return descriptor


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            # On all addresses, because a server may listen on others than loopback.
            probe.bind(("", port))
        except OSError:
            return False
    return True


@functools.cache
def _reservations() -> Reservations:
    return Reservations(_FILE)


def first_ephemeral(text: str) -> int:
    """Return the lowest port that the kernel assigns to outgoing connections."""
    return int(text.split(maxsplit=1)[0])


def choose(count: int, limit: int, take: Callable[[int], bool]) -> list[int]:
    """Return ``count`` taken ports below ``limit``; raise DevkitError if there are not enough.

    Ports of the ephemeral range are excluded: while a server is down, the kernel could assign its port to
    an outgoing connection, and the server could not restart.
    """
    candidates = (random.randrange(_LOWEST, limit) for _ in range(_ATTEMPTS + count))  # noqa: S311
    chosen: list[int] = []
    while len(chosen) < count and (port := next(candidates, None)):
        if take(port):
            chosen.append(port)
    if len(chosen) < count:
        raise DevkitError(f"fewer than {count} free ports between {_LOWEST} and {limit}: stop other testbeds")
    return chosen


def free_ports(count: int) -> list[int]:
    """Return ``count`` ports that no other testbed of this machine gets before this process exits."""
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    limit = min(first_ephemeral(text), _HIGHEST + 1)
    return choose(count, max(limit, _LOWEST + 10_000), _reservations().take)
