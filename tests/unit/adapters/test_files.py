from pathlib import Path

import pytest

from gpushare.adapters.files import read_file, remove_file, replace_file
from gpushare.errors import ConfigError


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a" / "file"
    replace_file(path, b"one")
    replace_file(path, b"two")
    assert read_file(path) == b"two"
    assert [each.name for each in path.parent.iterdir()] == ["file"]


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    assert read_file(tmp_path / "file") is None


def test_the_error_for_an_unreadable_file_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"cannot read {tmp_path}"):
        read_file(tmp_path)


def test_the_error_for_an_unwritable_file_names_it_and_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(ConfigError, match=f"cannot write {tmp_path / 'file'}"):
        replace_file(tmp_path / "file", b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_file_is_removed_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert [remove_file(tmp_path / "file"), remove_file(tmp_path / "file")] == [True, False]


def test_the_error_for_a_file_that_cannot_be_removed_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"cannot remove {tmp_path}"):
        remove_file(tmp_path)
