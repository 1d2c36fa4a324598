"""Releases the GPUs of terminated pods, once the kubelet has removed their cgroups.

Nothing reports the removal, so it is polled. The check walks cgroup directories of the kernel and runs in
its own thread, one at a time: a large or hanging hierarchy blocks nothing else.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog

from gpushare.deviceplugin.node.state import NodeState

log = structlog.get_logger()

_TIMEOUT_S: Final = 2.0

_START_GRACE_S: Final = 10.0
"""How long after Allocate a pod may still be without a cgroup on a node under load."""

PodsWithCgroup = Callable[[frozenset[str]], frozenset[str]]
"""Returns the pods among these, by UID, that still have a cgroup."""


class CardReleaser:
    """Releases terminated pods of a node state. ``with_cgroup`` is None if cgroups are not visible.

    ``clock_ns`` returns the wall clock in nanoseconds, like the times of allocations.
    """

    def __init__(
        self,
        node_state: NodeState,
        with_cgroup: PodsWithCgroup | None,
        *,
        timeout_s: float = _TIMEOUT_S,
        start_grace_s: float = _START_GRACE_S,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._node_state = node_state
        self._with_cgroup = with_cgroup
        self._timeout_s = timeout_s
        self._start_grace_s = start_grace_s
        self._clock_ns = clock_ns
        self._thread = ThreadPoolExecutor(1, "cgroups")
        self._slow = False
        self._with_cgroup_before: frozenset[str] = frozenset()

    async def release_terminated(self) -> frozenset[str]:
        """Release all terminated pods without a cgroup; returns the others, which are still terminating."""
        terminated = self._node_state.terminated
        terminating = await self._terminating(terminated) if terminated else terminated
        self._node_state.release(terminated - terminating)
        return terminating

    async def _terminating(self, terminated: frozenset[str]) -> frozenset[str]:
        """All of them if the check takes too long: GPUs are never released on a guess."""
        if self._with_cgroup is None:
            return frozenset()
        loop, begun_ns = asyncio.get_running_loop(), self._clock_ns()
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await loop.run_in_executor(self._thread, self._with_cgroup, terminated)
        except TimeoutError:
            self._log_slow(slow=True)
            return terminated
        self._log_slow(slow=False)
        self._with_cgroup_before = found | (self._with_cgroup_before & terminated)
        return found | (terminated & self._starting(begun_ns) - self._with_cgroup_before)

    def _starting(self, check_ns: int) -> frozenset[str]:
        """Pods with an allocation so shortly before the check that their cgroup may not exist yet."""
        since_ns, now_ns = check_ns - self._start_grace_s * 1e9, self._clock_ns()
        allocations = self._node_state.allocations.by_container.values()
        return frozenset(each.uid for each in allocations if since_ns < each.at_ns <= now_ns)

    def _log_slow(self, *, slow: bool) -> None:
        if slow and not self._slow:
            log.warning(
                "cgroup_check_timed_out",
                waited_s=self._timeout_s,
                effect="GPUs of terminated pods stay allocated",
            )
        self._slow = slow
