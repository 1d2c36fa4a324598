import os
from pathlib import Path

import pytest

from gpushare.adapters.files import read_file, remove_file, rename_file, replace_file
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


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Each flushed file or folder: its path, and the size of what it had then (of a folder, its entries)."""
    found: list[tuple[str, int]] = []
    fsync = os.fsync

    def record(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        found.append((path.name, len(list(path.iterdir())) if path.is_dir() else path.stat().st_size))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", record)
    return found


def test_content_is_flushed_before_the_rename_and_the_rename_after_it(
    tmp_path: Path, flushed: list[tuple[str, int]]
) -> None:
    replace_file(tmp_path / "a" / "file", b"one")
    assert flushed == [(".file.draft", 3), ("a", 1)]


def test_a_removal_is_flushed(tmp_path: Path, flushed: list[tuple[str, int]]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()
    remove_file(tmp_path / "a" / "file")
    assert flushed == [("a", 0)]


def test_a_rename_is_flushed(tmp_path: Path, flushed: list[tuple[str, int]]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()
    rename_file(tmp_path / "a" / "file", tmp_path / "a" / "other")
    assert flushed == [("a", 1)]
