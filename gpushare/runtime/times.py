"""Times in the format of the Kubernetes API, and the clock for promises to other machines."""

import time
from datetime import UTC, datetime
from typing import Final

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_of(text: str) -> float | None:
    """Seconds since 1970; None if the text is no time."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except ValueError:
        return None


def seconds_since(text: str) -> float:
    """Seconds from that time until now; 0 if the text is no time."""
    at = seconds_of(text)
    return 0.0 if at is None else time.time() - at


def now_text() -> str:
    """The time now, in microseconds as a ``MicroTime``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def clock_time(at_s: float) -> str:
    """The time of day of that many seconds since 1970, such as ``14:03:20 UTC``."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%S UTC")


def boot_time() -> float:
    """Return monotonic seconds that count the time in which the machine was suspended, where Linux has them.

    ``time.monotonic`` and the timers of the event loop stand still then. A virtual machine that its host
    pauses notices nothing: no clock of it runs.
    """
    return time.clock_gettime(_CLOCK)
