"""The node agent's counters of events."""

from gpushare.deviceplugin.metrics import PluginEventMetrics, PluginMetrics


def test_events_are_counted_by_result() -> None:
    metrics = PluginMetrics()
    events = PluginEventMetrics(metrics)
    events.written()
    events.failed()
    events.dropped()
    for result in ("ok", "error", "dropped"):
        labels = {"kind": "events", "result": result}
        assert metrics.registry.get_sample_value("gpushare_device_plugin_api_writes_total", labels) == 1


def test_a_missing_permission_is_reported_while_it_is_missing() -> None:
    metrics = PluginMetrics()
    events = PluginEventMetrics(metrics)
    for forbidden in (True, False):
        events.forbidden(forbidden=forbidden)
        found = metrics.registry.get_sample_value("gpushare_device_plugin_degraded_mode", {"right": "events"})
        assert found == forbidden
