"""An agent without a GPU publishes the reason on its node: once, and again after a failed write."""

from structlog.testing import capture_logs

from gpushare.contract import ANN_CLOSED
from gpushare.deviceplugin.api.waiting import WaitingReport
from gpushare.deviceplugin.metrics import PluginMetrics
from tests.unit.deviceplugin.fakes import FakeAgentApi, refused


async def test_each_reason_is_written_once() -> None:
    api = FakeAgentApi()
    metrics = PluginMetrics()
    report = WaitingReport(api, metrics)
    for reason in ("no driver", "no driver", "no GPU", "no GPU"):
        await report.report(reason)
        assert api.node.annotations == {ANN_CLOSED: reason}
    assert api.log == ["node", "node"]
    assert metrics.registry.get_sample_value("gpushare_device_plugin_closed") == 1


async def test_a_failed_write_is_repeated_and_logged_once() -> None:
    api = FakeAgentApi()
    api.node_errors.extend([refused(503), refused(503), None])
    report = WaitingReport(api, PluginMetrics())
    with capture_logs() as logs:
        for _ in range(4):
            await report.report("no driver")
    assert api.node.annotations == {ANN_CLOSED: "no driver"}
    assert api.log == ["node"] * 3
    assert [each["event"] for each in logs] == ["reason_not_published"]
