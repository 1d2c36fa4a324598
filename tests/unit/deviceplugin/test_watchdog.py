"""Jobs of the agent that have ended or are stuck."""

import asyncio

import pytest
from structlog.testing import capture_logs

from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.watchdog import Watchdog


@pytest.fixture
def metrics() -> PluginMetrics:
    return PluginMetrics()


def stuck(metrics: PluginMetrics, job: str) -> float | None:
    return metrics.registry.get_sample_value("gpushare_device_plugin_job_stuck", {"job": job})


def test_work_that_ends_in_time_is_not_stuck(metrics: PluginMetrics) -> None:
    watchdog = Watchdog(metrics)
    with watchdog.work("a", 60):
        assert watchdog.problem() is None
    watchdog.check()
    assert stuck(metrics, "a") == 0


def test_work_that_takes_too_long_is_stuck_and_logged_once(metrics: PluginMetrics) -> None:
    watchdog = Watchdog(metrics)
    with capture_logs() as logs:
        with watchdog.work("a", -1), watchdog.work("a", 60):
            assert watchdog.problem() == "stuck: a"
            for _ in range(3):
                watchdog.check()
            assert stuck(metrics, "a") == 1
        watchdog.check()
    assert watchdog.problem() is None
    assert stuck(metrics, "a") == 0
    assert [entry["event"] for entry in logs] == ["job_stuck", "job_recovered"]


async def test_a_job_that_ends_by_itself_stays_stuck(metrics: PluginMetrics) -> None:
    watchdog = Watchdog(metrics)
    await watchdog.run_job("short", asyncio.sleep(0))
    watchdog.check()
    assert watchdog.problem() == "stuck: short"
    assert stuck(metrics, "short") == 1


async def test_a_cancelled_job_is_not_stuck(metrics: PluginMetrics) -> None:
    watchdog = Watchdog(metrics)
    task = asyncio.ensure_future(watchdog.run_job("long", asyncio.sleep(60)))
    await asyncio.sleep(0)
    watchdog.check()
    assert stuck(metrics, "long") == 0
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert watchdog.problem() is None


async def test_an_error_of_a_job_is_raised(metrics: PluginMetrics) -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Watchdog(metrics).run_job("broken", broken())
