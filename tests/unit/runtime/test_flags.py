import click
import pytest
from click.testing import CliRunner

from gpushare.deviceplugin.main import command as device_plugin
from gpushare.exporter.main import command as exporter
from gpushare.extender.main import command as extender
from gpushare.installer.main import command as isolation
from gpushare.metricsapi.main import command as metrics_api
from gpushare.mpsd.main import command as mps


@pytest.mark.parametrize(
    ("command", "argument"),
    [
        (extender, "--port=99999"),
        (extender, "--port=-1"),
        (extender, "--ops-port=-5"),
        (extender, "--api-request-timeout=-1"),
        (extender, "--api-request-timeout=nan"),
        (extender, "--events-per-second=nan"),
        (device_plugin, "--ops-port=99999"),
        (device_plugin, "-kubelet-port=0"),
        (device_plugin, "--timeout=0"),
        (device_plugin, "--allocate-timeout=nan"),
        (device_plugin, "--recovery-seconds=inf"),
        (exporter, "--ops-port=99999"),
        (exporter, "--stale-seconds=inf"),
        (metrics_api, "--port=99999"),
        (metrics_api, "--keep-seconds=nan"),
        (mps, "--ops-port=99999"),
    ],
)
def test_a_number_out_of_range_is_an_error_that_names_flag_value_and_range(
    command: click.Command, argument: str
) -> None:
    flag, _, value = argument.partition("=")
    result = CliRunner().invoke(command, [argument])
    assert result.exit_code == 2
    assert flag in result.output
    assert f"{float(value):g} is not in the range" in result.output.replace(".0 ", " ")


def test_the_isolation_installers_port_has_a_range_too() -> None:
    result = CliRunner().invoke(isolation, ["install", "--ops-port=99999"])
    assert (result.exit_code, "99999 is not in the range" in result.output) == (2, True)


def test_the_extenders_port_flag_must_be_a_number() -> None:
    result = CliRunner().invoke(extender, ["--port=http"])
    assert (result.exit_code, "'http' is not a number" in result.output) == (2, True)


def test_the_port_variable_must_be_in_range_and_one_that_is_no_number_selects_the_default() -> None:
    result = CliRunner().invoke(extender, [], env={"PORT": "99999"})
    assert (result.exit_code, "99999 is not in the range" in result.output) == (2, True)
    result = CliRunner().invoke(extender, ["--tls-cert=alone"], env={"PORT": "http"})
    assert (result.exit_code, "PORT='http' is not a number, listening on 39999" in result.output) == (2, True)
