"""The order of the files of tests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.order import File, ordered

FILES = st.lists(
    st.builds(File, st.text(min_size=1), st.sampled_from([0, 600, 1800]), st.booleans(), st.booleans()),
    unique_by=lambda each: each.name,
)


def test_busy_files_are_spread_over_the_others() -> None:
    files = [File(f"busy-{i}", 600, is_busy=True) for i in range(2)]
    files += [File(f"other-{i}", 0, is_busy=False) for i in range(4)]
    assert ordered(files) == ["busy-0", "other-0", "other-1", "busy-1", "other-2", "other-3"]


@pytest.mark.parametrize("is_busy", [True, False])
def test_the_longest_file_of_a_kind_starts_first(is_busy: bool) -> None:  # noqa: FBT001 - a parameter
    files = [File("short", 0, is_busy), File("long", 1800, is_busy), File("medium", 600, is_busy)]
    assert ordered(files) == ["long", "medium", "short"]


def test_files_that_share_a_control_plane_are_last_and_the_longest_of_them_first() -> None:
    files = [File("shares", 600, is_busy=False, shares_a_bed=True), File("busy", 0, is_busy=True)]
    files += [File("shares-long", 1800, is_busy=True, shares_a_bed=True), File("other", 0, is_busy=False)]
    assert ordered(files) == ["busy", "other", "shares-long", "shares"]


@given(FILES)
def test_every_file_starts_once(files: list[File]) -> None:
    assert sorted(ordered(files)) == sorted(each.name for each in files)
