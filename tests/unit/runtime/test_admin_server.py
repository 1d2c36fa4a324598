"""The admin port: text and status of readyz."""

import pytest
from starlette.testclient import TestClient

from gpushare.runtime.admin_server import admin_app


@pytest.mark.parametrize(
    ("problem", "notices", "status", "text"),
    [
        (None, (), 200, "ok"),
        (
            None,
            ("degraded: no right to x", "card 1 is full"),
            200,
            "ok\ndegraded: no right to x\ncard 1 is full",
        ),
        ("not listed", ("degraded: no right to x",), 503, "not listed"),
    ],
    ids=["ready", "degraded", "not-ready"],
)
def test_a_degraded_daemon_is_ready_and_reports_what_is_missing(
    problem: str | None, notices: tuple[str, ...], status: int, text: str
) -> None:
    app = admin_app(
        lambda _: (b"", "text/plain"), live=lambda: None, ready=lambda: problem, notices=lambda: notices
    )
    answer = TestClient(app).get("/readyz")
    assert (answer.status_code, answer.text) == (status, text)
