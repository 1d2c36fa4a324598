"""Releases the GPUs of terminated pods, once the kubelet has removed their cgroups.

Nothing reports the removal, so it is polled. The check walks cgroup directories of the kernel and runs in
its own thread, one at a time: a large or hanging hierarchy blocks nothing else.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import structlog

from gpushare.adapters.cgroups import Cgroups
from gpushare.deviceplugin.metrics import DegradedMode
from gpushare.deviceplugin.node.state import NodeState
from gpushare.errors import KubeletError
from gpushare.runtime.reasons import Reasons

log = structlog.get_logger()

_TIMEOUT_S: Final = 2.0
_RIGHT: Final = "cgroups"
"""Value of the label ``right`` of the degraded mode metric."""

_START_GRACE_S: Final = 10.0
"""How long after Allocate a pod may still be without a cgroup on a node under load."""

PodsWithCgroup = Callable[[frozenset[str]], frozenset[str] | None]
"""Returns the pods among these, by UID, that still have a cgroup; None if no cgroups of pods are visible."""


class GpuReleaser:
    """Releases terminated pods of a node state.

    Where no cgroups of pods are visible, pods are released without them: their mount is missing, or the
    kubelet has not created any since the node started. ``on_visible`` is called with each change of that,
    which is ``visible`` at first.
    ``clock_ns`` returns the wall clock in nanoseconds, like the times of allocations.
    """

    def __init__(
        self,
        node_state: NodeState,
        with_cgroup: PodsWithCgroup,
        *,
        visible: bool = False,
        on_visible: Callable[[bool], None] = lambda _: None,
        timeout_s: float = _TIMEOUT_S,
        start_grace_s: float = _START_GRACE_S,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._node_state = node_state
        self._with_cgroup = with_cgroup
        self._on_visible = on_visible
        self._timeout_s = timeout_s
        self._start_grace_s = start_grace_s
        self._clock_ns = clock_ns
        self._thread = ThreadPoolExecutor(1, "cgroups")
        self._visible = visible
        self._problems = Reasons()
        self._with_cgroup_before: frozenset[str] = frozenset()

    async def release(self, terminated: frozenset[str]) -> frozenset[str]:
        """Release those of all terminated pods that have no cgroup; returns the others, by UID."""
        self._with_cgroup_before &= terminated
        terminating = terminated
        if terminated or not self._visible:
            terminating = await self._terminating(terminated)
        self._node_state.release(terminated - terminating)
        return terminating

    async def _terminating(self, terminated: frozenset[str]) -> frozenset[str]:
        """All of them if the check fails or takes too long: GPUs are never released on a guess."""
        # Before the check: a slow one must not use up the grace of a pod that starts meanwhile.
        begun_ns = self._clock_ns()
        try:
            found = await self._check(terminated)
        except (TimeoutError, KubeletError) as error:
            self._log_problem(str(error) or f"no answer for {self._timeout_s:g} s")
            # A GPU that is released on a guess may get a second owner.
            return terminated
        self._problems.end()
        self._set_visible(visible=found is not None)
        if found is None:
            # Cgroups that were visible and vanish prove nothing about pods that had one.
            return terminated & self._with_cgroup_before
        self._with_cgroup_before |= found
        return found | (terminated & self._starting(begun_ns) - self._with_cgroup_before)

    async def _check(self, terminated: frozenset[str]) -> frozenset[str] | None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._timeout_s):
            return await loop.run_in_executor(self._thread, self._with_cgroup, terminated)

    def _starting(self, check_ns: int) -> frozenset[str]:
        """Pods with an allocation so shortly before the check that their cgroup may not exist yet."""
        since_ns, now_ns = check_ns - self._start_grace_s * 1e9, self._clock_ns()
        allocations = self._node_state.allocations.by_container.values()
        return frozenset(each.uid for each in allocations if since_ns < each.at_ns <= now_ns)

    def _set_visible(self, *, visible: bool) -> None:
        if visible != self._visible:
            self._visible = visible
            self._on_visible(visible)

    def _log_problem(self, problem: str) -> None:
        if self._problems.is_new(problem):
            log.warning(
                "cgroup_check_failed", reason=problem, effect="GPUs of terminated pods stay allocated"
            )


def make_releaser(cgroup_root: Path, node_state: NodeState, degraded: DegradedMode) -> GpuReleaser:
    """A releaser for the cgroups of the node; what it does without is reported now and when it changes."""
    cgroups = Cgroups(cgroup_root)

    def report(visible: bool) -> None:  # noqa: FBT001 - its type is that of a callback
        # The kubelet creates cgroups of pods when it starts, maybe after this agent.
        if visible:
            degraded.end(_RIGHT)
        else:
            degraded.begin(_RIGHT, "GPUs of a pod are free once the API server has deleted it")

    visible = cgroups.visible
    if not visible:
        report(visible)
    return GpuReleaser(node_state, cgroups.kept, visible=visible, on_visible=report)
