"""Which skips are accepted where all tests are required."""

import pytest

from tests.support import skips

STEP = "tests/e2e/test_install.py::test_each_step_works_as_the_page_shows[a]"


@pytest.mark.parametrize(
    ("test", "message", "outcome"),
    [
        ("tests/gpu/test_a.py::test_b", "needs a real NVIDIA GPU", "skipped"),
        (STEP, "an earlier step failed: make images", "skipped"),
        (STEP, "there is no skopeo (apt-get install skopeo)", "failed"),
        ("tests/unit/test_a.py::test_b", "an earlier step failed: make images", "failed"),
    ],
)
def test_a_skip_is_accepted_for_one_reason_only(
    monkeypatch: pytest.MonkeyPatch, test: str, message: str, outcome: str
) -> None:
    monkeypatch.setenv("GPUSHARE_REQUIRE_ALL", "1")
    report = pytest.TestReport(test, ("a.py", 1, test), {}, "skipped", ("a.py", 1, message), "setup")
    skips.refuse(report)
    assert report.outcome == outcome
