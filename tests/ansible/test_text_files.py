"""Reading text files of a host."""

from pathlib import Path

import pytest

from ansible_collections.gpushare.nodes.plugins.module_utils.text_files import read
from ansible_collections.gpushare.nodes.plugins.modules import read_files


def test_a_file_is_read_with_its_permissions(tmp_path: Path) -> None:
    file = tmp_path / "daemon.json"
    file.write_bytes("{\r\n ü".encode())
    file.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(file)
    assert read(str(file)) == read(str(link)) == ("{\r\n ü", "0640")


def test_an_absent_file_has_no_text(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read(str(tmp_path / "absent")) is None
    assert read(str(tmp_path / "file/below")) is None


def test_a_file_that_is_no_text_is_refused_with_its_path(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xff")
    with pytest.raises(ValueError, match=f"{file} is not UTF-8 text"):
        read(str(file))


def test_what_cannot_be_read_is_an_error_unless_it_may_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    paths = [str(tmp_path), str(tmp_path / "file")]
    with pytest.raises(OSError, match=tmp_path.name):
        read_files.found(paths, skip_unreadable=False)
    assert list(read_files.found(paths, skip_unreadable=True)) == [str(tmp_path / "file")]
