"""Events of the node agent: the event recorder's counters in the agent's metrics."""

from typing import Final

from gpushare.deviceplugin.metrics import PluginMetrics

_RIGHT: Final = "events"


class PluginEventMetrics:
    """Counts writes of events by result, and sets the gauge of the missing right."""

    def __init__(self, metrics: PluginMetrics) -> None:
        self._metrics = metrics

    def written(self) -> None:
        """Count a written event."""
        self._metrics.writes.labels(_RIGHT, "ok").inc()

    def failed(self) -> None:
        """Count a failed attempt."""
        self._metrics.writes.labels(_RIGHT, "error").inc()

    def dropped(self) -> None:
        """Count a dropped event."""
        self._metrics.writes.labels(_RIGHT, "dropped").inc()

    def forbidden(self, *, forbidden: bool) -> None:
        """Set the gauge of the missing right."""
        self._metrics.reduced.labels(_RIGHT).set(forbidden)
