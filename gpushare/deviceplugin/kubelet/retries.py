"""Repeats attempts at a decision until a deadline, after each change of the node state."""

import asyncio
import time
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from gpushare.deviceplugin.kubelet.client import KubeletClient
from gpushare.deviceplugin.node.state import NodeState

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_POLL_S: Final = 0.25


class Attempt(Protocol[T_co]):
    """One attempt at a decision; ``last`` is whether it is the last one."""

    async def __call__(self, *, last: bool) -> T_co | None:
        """The decision; None if waiting may help."""


class Retries:
    """Attempts on one node state; they ask the kubelet for pods that the API does not show yet."""

    def __init__(self, node_state: NodeState, kubelet: KubeletClient) -> None:
        self._node_state = node_state
        self._kubelet = kubelet

    async def until(self, attempt: Attempt[T], deadline: float) -> T | None:
        """The first result of the attempt that is not None; the last attempt is after the deadline.

        ``deadline`` is a time of the monotonic clock.
        """
        asked = False
        while True:
            left_s = deadline - time.monotonic()
            result = await attempt(last=left_s <= 0)
            if result is not None or left_s <= 0:
                return result
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._change(ask=not asked)
            asked = True

    async def _change(self, *, ask: bool) -> None:
        """Return when the decision may be a different one."""
        if ask and self._kubelet.pods:
            self._node_state.update_kubelet_pods(await self._kubelet.pods())
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._node_state.changed(), _POLL_S)
