"""What the agent does without because a right or a mount is missing: one log line and metric for each."""

import structlog

from gpushare.deviceplugin.metrics import PluginMetrics

log = structlog.get_logger()


class DegradedMode:
    """The missing rights of one agent; names of rights are values of a metric label."""

    def __init__(self, metrics: PluginMetrics) -> None:
        self._metrics = metrics

    def begin(self, right: str, effect: str) -> None:
        """Report that a right is missing, with the effect of that."""
        log.warning("degraded_mode", right=right, effect=effect)
        self._metrics.degraded.labels(right).set(1)

    def end(self, right: str) -> None:
        """Report that a right is there again."""
        self._metrics.degraded.labels(right).set(0)
        log.info("degraded_mode_over", right=right)
