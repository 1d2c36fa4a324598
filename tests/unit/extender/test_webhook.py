"""The flags of the webhook."""

import pytest
from structlog.testing import capture_logs

from gpushare.contract import SCHEDULER_NAMING_PATH
from gpushare.errors import ConfigError
from gpushare.extender.settings import WebhookSettings
from gpushare.extender.webhook import registry_of, routes
from gpushare.runtime.flags import check_api_service
from gpushare.runtime.http import Request, Response


def test_without_a_certificate_it_does_not_start() -> None:
    check_api_service(WebhookSettings(scheduler_name="s", tls_cert="c", tls_key="k"))
    with pytest.raises(ConfigError, match="--tls-cert and --tls-key are needed"):
        check_api_service(WebhookSettings(scheduler_name="s", tls_cert="c"))


def test_the_end_of_its_certificate_is_a_metric() -> None:
    name = "gpushare_scheduler_name_certificate_expiration_timestamp_seconds"
    assert registry_of(lambda: 7.0).get_sample_value(name) == 7


def test_a_flood_of_refused_requests_does_not_flood_the_log() -> None:
    """Every pod can call it."""
    handle = routes("s")
    with capture_logs() as logs:
        answers = [
            handle(Request("POST", SCHEDULER_NAMING_PATH, {}, b"junk", keep_alive=True)) for _ in range(1000)
        ]
    assert {answer.status for answer in answers if isinstance(answer, Response)} == {400}
    assert 100 <= len(logs) < 500
