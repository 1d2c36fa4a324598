"""Rules for all tests: requirements of the machine, and the search time of tests with ``@given``.

``make check`` takes the profile "check": the same few examples each time. The default "full" searches anew in
every run, and longer with ``GPUSHARE_EXAMPLES=2000 pytest tests/property``.
"""

import os
from importlib.util import find_spec

import pytest

from tests.support import needs

# The environment of the collection's tests has no Hypothesis.
if find_spec("hypothesis"):
    from hypothesis import settings

    examples = int(os.environ.get("GPUSHARE_EXAMPLES", "100"))
    settings.register_profile("full", deadline=None, max_examples=examples, print_blob=True)
    settings.register_profile("check", deadline=None, max_examples=20, derandomize=True)
    settings.load_profile("full")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test if the machine lacks what its ``needs`` markers name."""
    for marker in item.iter_markers("needs"):
        for need in marker.args:
            if reason := needs.missing(need):
                pytest.skip(reason)
