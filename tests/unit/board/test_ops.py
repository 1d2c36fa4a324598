"""Probes and scrapes of the board in a cluster."""

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpushare.board.ops import respond
from gpushare.monitoring import catalogue
from gpushare.monitoring.page import samples
from gpushare.runtime.http import Request, Response

EXPIRY = "gpushare_board_certificate_expiration_timestamp_seconds"


def ask(path: str, method: str = "GET", missing: str | None = None, expires_at: float = 7.0) -> Response:
    return respond(Request(method, path, {}, None, keep_alive=True), missing, expires_at)


def test_it_is_ready_once_the_cluster_is_listed() -> None:
    assert (ask("/readyz").status, ask("/readyz").body) == (200, b"ok")
    found = ask("/readyz", missing="nodes are not listed yet")
    assert (found.status, found.body) == (503, b"nodes are not listed yet")
    assert ask("/healthz", missing="nodes are not listed yet").status == 200


def test_the_end_of_its_certificate_is_a_metric() -> None:
    [found] = samples(ask("/metrics", expires_at=1_764_100_000.0).body.decode(), {EXPIRY})
    assert found.number == 1_764_100_000


def test_an_unknown_end_of_its_certificate_is_not_a_number() -> None:
    [found] = samples(ask("/metrics", expires_at=math.nan).body.decode(), {EXPIRY})
    assert math.isnan(found.number)


def test_it_serves_the_metrics_of_its_group() -> None:
    page = text_string_to_metric_families(ask("/metrics").body.decode())
    served = {(each.name, each.type, each.documentation) for each in page}
    assert served == {(each.name, each.kind, each.help) for each in (*catalogue.COMMON, *catalogue.BOARD)}


@pytest.mark.parametrize(("path", "method", "status"), [("/", "GET", 404), ("/metrics", "POST", 405)])
def test_nothing_else_is_served(path: str, method: str, status: int) -> None:
    assert ask(path, method).status == status
