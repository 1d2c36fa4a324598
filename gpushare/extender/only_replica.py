"""The only replica of an extender, which binds without a Lease (``--allow-without-lease``).

It never reads or writes one, so it cannot notice another replica, and another one cannot notice it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from gpushare.extender.leadership import Leadership, waiting_text

log = structlog.get_logger()

_EFFECT: Final = "this extender binds without a Lease, which only a single replica may"
_NOT_BEGUN: Final = "this extender has not begun to lead yet"
_CAUSE: Final = "the last binds of its predecessor may still arrive"


class OnlyReplica:
    """Leads from ``wait_s`` after its start until its end. Has the interface of ``Leadership``."""

    holder: None = None
    degraded: Final = _EFFECT

    def __init__(self, *, wait_s: float, catch_up: Callable[[], Awaitable[None]]) -> None:
        self._wait_s = wait_s
        self._catch_up = catch_up
        self._refusal: str | None = _NOT_BEGUN
        self.began = asyncio.Event()

    @property
    def leads(self) -> bool:
        """Whether this replica may bind now."""
        return self._refusal is None

    @property
    def waiting(self) -> str | None:
        """Why this replica does not bind yet; None if it binds."""
        return self._refusal

    def fence(self) -> str | None:
        """Why a bind POST must not start now; None if it may."""
        return self._refusal

    async def announce(self) -> None:
        """No other replica could read an announcement."""

    async def observe_lease(self) -> None:
        """There is no Lease to read."""

    def release_at_end(self) -> None:
        """There is no Lease to release."""

    async def run(self) -> None:
        """Wait for the binds of a predecessor, which leaves no trace, list pods and nodes, and lead."""
        self._refusal = waiting_text(self._wait_s, _CAUSE)
        log.warning("degraded_mode", right="leases", effect=_EFFECT)
        log.info("waiting_to_bind", wait_s=round(self._wait_s, 1), lease=False)
        await asyncio.sleep(self._wait_s)
        await self._catch_up()
        self._refusal = None
        self.began.set()
        log.info("leading")
        await asyncio.Event().wait()  # as every job: until it is cancelled


Leader = Leadership | OnlyReplica
"""What decides whether this replica binds."""
