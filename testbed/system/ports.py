"""Free TCP ports on the loopback interface.

What belongs here: choosing ports. A chosen port is not reserved: if another process takes it first, the
caller gets ``testbed.errors.PortTaken`` and retries.
"""

import random
import socket
from collections.abc import Callable
from pathlib import Path

from testbed.errors import TestbedError

LOOPBACK = "127.0.0.1"
_LOWEST = 10_000
_ATTEMPTS = 200


def first_ephemeral(text: str) -> int:
    """Return the lowest port that the kernel assigns to outgoing connections."""
    return int(text.split(maxsplit=1)[0])


def is_free(port: int) -> bool:
    """Return whether no process on loopback uses ``port`` now."""
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose(count: int, limit: int, free: Callable[[int], bool] = is_free) -> list[int]:
    """Return ``count`` different free ports below ``limit``; raise TestbedError if there are not enough.

    Ports of the ephemeral range are excluded: while a server is down, the kernel could assign its port to
    an outgoing connection, and the server could not restart.
    """
    chosen: dict[int, None] = {}
    for _ in range(_ATTEMPTS):
        port = random.randrange(_LOWEST, limit)  # noqa: S311
        if port not in chosen and free(port):
            chosen[port] = None
        if len(chosen) == count:
            return list(chosen)
    raise TestbedError(
        f"fewer than {count} free ports between {_LOWEST} and {limit} on {LOOPBACK}: stop other testbeds"
    )


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports that are free on loopback now."""
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    return choose(count, max(first_ephemeral(text), _LOWEST + 10_000))
