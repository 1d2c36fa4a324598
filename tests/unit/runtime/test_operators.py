"""The operators' port: what readyz says, and with which status."""

import pytest
from starlette.testclient import TestClient

from gpushare.runtime.operators import operators_app


@pytest.mark.parametrize(
    ("problem", "degraded", "status", "text"),
    [
        (None, None, 200, "ok"),
        (None, "no right to x", 200, "ok, degraded: no right to x"),
        ("not listed", "no right to x", 503, "not listed"),
    ],
    ids=["ready", "degraded", "not-ready"],
)
def test_a_degraded_daemon_is_ready_and_says_what_is_missing(
    problem: str | None, degraded: str | None, status: int, text: str
) -> None:
    app = operators_app(
        lambda _: (b"", "text/plain"), live=lambda: None, ready=lambda: problem, degraded=lambda: degraded
    )
    answer = TestClient(app).get("/readyz")
    assert (answer.status_code, answer.text) == (status, text)
