"""Comparison of resource versions."""

import pytest

from gpushare.model.changes import has_reached, is_older


@pytest.mark.parametrize(
    ("version", "other", "older", "reached"),
    [
        ("9", "10", True, False),
        ("10", "10", False, True),
        ("11", "10", False, True),
        ("", "10", False, False),
        ("10", "", False, False),
        ("v9", "v10", False, False),
    ],
)
def test_versions_are_compared_as_integers_or_not_at_all(
    version: str,
    other: str,
    older: bool,  # noqa: FBT001
    reached: bool,  # noqa: FBT001
) -> None:
    assert (is_older(version, other), has_reached(version, other)) == (older, reached)
