"""Cards go back when the kubelet is done with their pod, which nobody reports: it is looked for.

The look goes through folders of the kernel and is made in a thread of its own, one at a time, so that
neither a large machine nor a stuck one keeps anybody else waiting.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog

from gpushare.deviceplugin.node.state import NodeState

log = structlog.get_logger()

_LOOK_S: Final = 2.0

_BEGINNING_S: Final = 10.0
"""How long after its card was given a pod may be before its control group, on a machine under load."""

Kept = Callable[[frozenset[str]], frozenset[str]]
"""The pods among these, by UID, whose control groups the kubelet keeps."""


class CardReleaser:
    """Lets pods of one household go. ``kept`` is None where nobody can see control groups."""

    def __init__(
        self,
        node_state: NodeState,
        kept: Kept | None,
        *,
        look_s: float = _LOOK_S,
        beginning_s: float = _BEGINNING_S,
    ) -> None:
        self._node_state = node_state
        self._kept = kept
        self._look_s = look_s
        self._beginning_s = beginning_s
        self._thread = ThreadPoolExecutor(1, "departures")
        self._slow = False
        self._seen: frozenset[str] = frozenset()

    async def settle(self) -> frozenset[str]:
        """Take the cards back from all pods that are gone for good; returns those that still leave."""
        gone = self._node_state.gone
        leaving = await self._leaving(gone) if gone else gone
        self._node_state.let_go(gone - leaving)
        return leaving

    async def _leaving(self, gone: frozenset[str]) -> frozenset[str]:
        """All of them where the look takes too long: nobody's card is taken on a guess."""
        if self._kept is None:
            return frozenset()
        loop, begun_ns = asyncio.get_running_loop(), time.time_ns()
        try:
            async with asyncio.timeout(self._look_s):
                found = await loop.run_in_executor(self._thread, self._kept, gone)
        except TimeoutError:
            self._tell(slow=True)
            return gone
        self._tell(slow=False)
        self._seen = found | (self._seen & gone)
        return found | (gone & self._beginning(begun_ns) - self._seen)

    def _beginning(self, look_ns: int) -> frozenset[str]:
        """Pods that got a card so shortly before the look that an absent group says nothing yet."""
        since_ns, now_ns = look_ns - self._beginning_s * 1e9, time.time_ns()
        grants = self._node_state.allocations.by_container.values()
        return frozenset(grant.uid for grant in grants if since_ns < grant.at_ns <= now_ns)

    def _tell(self, *, slow: bool) -> None:
        if slow and not self._slow:
            log.warning(
                "control_groups_not_seen", waited_s=self._look_s, effect="cards of pods that left stay taken"
            )
        self._slow = slow
