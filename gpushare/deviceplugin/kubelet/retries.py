"""Trying again until a deadline, whenever there may be something else to be decided."""

import asyncio
import time
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from gpushare.deviceplugin.kubelet.client import KubeletClient
from gpushare.deviceplugin.node.state import NodeState

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_LOOK_AGAIN_S: Final = 0.25


class Attempt(Protocol[T_co]):
    """Tries to come to a decision; ``last`` tells that there will be no other."""

    async def __call__(self, *, last: bool) -> T_co | None:
        """The decision; None where waiting may help."""


class Retries:
    """Attempts in one household, which ask the kubelet for pods that the API does not show."""

    def __init__(self, node_state: NodeState, kubelet: KubeletClient) -> None:
        self._node_state = node_state
        self._kubelet = kubelet

    async def until(self, attempt: Attempt[T], deadline: float) -> T | None:
        """What the attempt gives as soon as it gives something; the last one comes after the deadline.

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
                    await self._news(ask=not asked)
            asked = True

    async def _news(self, *, ask: bool) -> None:
        """Return when there may be something else to be decided."""
        if ask and self._kubelet.pods:
            self._node_state.update_kubelet_pods(await self._kubelet.pods())
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._node_state.changed(), _LOOK_AGAIN_S)
