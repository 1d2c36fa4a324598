"""Publishes why an agent waits for GPUs: until it has one, it follows neither its node nor its pods.

Once it has one, ``status`` replaces or removes the reason.
"""

import asyncio
from typing import Final

import structlog

from gpushare.contract import ANN_CLOSED
from gpushare.deviceplugin.api.writer import AgentApi
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.errors import ApiError
from gpushare.runtime.reasons import Reasons

log = structlog.get_logger()

_TIMEOUT_S: Final = 5.0
"""The next look for GPUs does not wait longer for the API server."""


class WaitingReport:
    """Writes each reason to the node once, and tries again at the next call if that fails."""

    def __init__(self, api: AgentApi, metrics: PluginMetrics) -> None:
        self._api = api
        self._metrics = metrics
        self._written: str | None = None
        self._problems = Reasons()

    async def report(self, reason: str) -> None:
        """Close the node for new pods with that reason."""
        self._metrics.closed.set(1)
        if reason == self._written:
            return
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await self._api.patch_node({"metadata": {"annotations": {ANN_CLOSED: reason}}})
        except (ApiError, TimeoutError) as error:
            problem = str(error) or f"no answer within {_TIMEOUT_S:g} s"
            if self._problems.is_new(problem):
                log.warning("reason_not_published", annotation=ANN_CLOSED, problem=problem)
        else:
            self._written = reason
