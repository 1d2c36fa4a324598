"""Flags to settings, and invalid settings."""

import pytest
from click.testing import CliRunner

from gpushare.errors import ConfigError
from gpushare.metricsapi.main import command
from gpushare.metricsapi.settings import MetricsApiSettings
from gpushare.runtime.flags import check_api_service
from tests.support.builders.settings import parsed

TLS = ("--tls-cert=c", "--tls-key=k")


@pytest.fixture(autouse=True)
def without_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "LOG_LEVEL", "OPS_PORT", "PORT"):
        monkeypatch.delenv(name, raising=False)


def settings(*arguments: str) -> MetricsApiSettings:
    found = parsed(command, MetricsApiSettings, *arguments)
    check_api_service(found)
    assert found.exporters
    return found


def test_by_default_the_exporters_of_the_stack_are_scraped() -> None:
    made = settings(*TLS)
    assert (made.exporter_namespace, made.exporter_port) == ("kube-system", 12348)
    assert made.exporters({"component": "gpushare-exporter"})
    assert not made.exporters({"component": "gpushare-metrics-api"})


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ((), "--tls-cert and --tls-key are needed"),
        (("--tls-cert=c",), "--tls-cert and --tls-key are needed"),
        ((*TLS, "--exporter-selector=a b"), "--exporter-selector: selector 'a b'"),
        ((*TLS, "--exporter-selector="), "every pod would count as an exporter"),
    ],
)
def test_the_error_for_an_invalid_setting_has_the_remedy(flags: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        settings(*flags)


def test_missing_files_end_the_program_with_2() -> None:
    ended = CliRunner().invoke(command, [*TLS, "--port=0", "--ops-port=0"])
    assert ended.exit_code == 2
    assert "TLS files c, k" in ended.stderr
