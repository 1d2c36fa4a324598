"""Repeats attempts at a decision until a deadline, after each change of the node state."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from gpushare.deviceplugin.kubelet.client import KubeletClient
from gpushare.deviceplugin.node.state import NodeState

T = TypeVar("T")

_POLL_S: Final = 0.25


class PodSources(NamedTuple):
    """Where a call finds a pod that is not known yet: in the kubelet, or in watches that have failed.

    ``retry_watches`` ends the pause of these: the API server may have answered the kubelet again already.
    """

    kubelet: KubeletClient
    retry_watches: Callable[[], None]


class Retries:
    """Attempts on one node state; they look for pods that it does not have yet."""

    def __init__(self, node_state: NodeState, sources: PodSources) -> None:
        self._node_state = node_state
        self._sources = sources

    async def until(
        self, attempt: Callable[[], Awaitable[T]], is_final: Callable[[T], bool], deadline: float
    ) -> T:
        """The first final result, or the result of the last attempt, which is after the deadline.

        ``deadline`` is a time of the monotonic clock. Nothing is awaited after the attempt.
        """
        asked = False
        while True:
            # Before the attempt: one that begins in time may be answered late, but is the last one.
            left_s = deadline - time.monotonic()
            result = await attempt()
            if is_final(result) or left_s <= 0:
                return result
            # The API server may be back already: the kubelet has seen the pod.
            self._sources.retry_watches()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._change(ask=not asked)
            asked = True

    async def _change(self, *, ask: bool) -> None:
        """Return when the decision may be a different one."""
        if ask and self._sources.kubelet.pods:
            pods = await self._sources.kubelet.pods()
            if pods is not None:
                self._node_state.apply_kubelet_pods(pods)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._node_state.changed()
