"""The flags of the webhook."""

from typing import Any

import pytest

from gpushare.errors import ConfigError
from gpushare.extender.webhook import command, registry_of, settings_of


def flags(*given: str) -> dict[str, Any]:
    return dict(command.make_context("scheduler-name", ["--scheduler-name=s", *given]).params)


def test_without_a_certificate_it_does_not_start() -> None:
    assert settings_of(flags("--tls-cert=c", "--tls-key=k")).scheduler == "s"
    with pytest.raises(ConfigError, match="--tls-cert and --tls-key are needed"):
        settings_of(flags("--tls-cert=c"))


def test_the_end_of_its_certificate_is_a_metric() -> None:
    name = "gpushare_scheduler_name_certificate_expiration_timestamp_seconds"
    assert registry_of(lambda: 7.0).get_sample_value(name) == 7
