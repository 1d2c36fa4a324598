"""Rules for all tests: what the machine must have, and how long property tests search."""

import pytest

from tests.support import needs


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test if the machine lacks what its ``needs`` markers name."""
    for marker in item.iter_markers("needs"):
        for need in marker.args:
            if reason := needs.missing(need):
                pytest.skip(reason)
