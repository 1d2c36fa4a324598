from pathlib import Path

import pytest

from gpushare.adapters.control_plane import LocalHost
from gpushare.errors import ConfigError
from gpushare.kubescheduler.host import HostFile


def host(root: Path) -> LocalHost:
    return LocalHost(root, lambda _: None)


def test_paths_are_below_the_root_and_a_missing_folder_has_the_given_permissions(tmp_path: Path) -> None:
    assert host(tmp_path).replace("/etc/backup/file", HostFile("text", 0o600), 0o700)
    assert host(tmp_path).read("/etc/backup/file") == HostFile("text", 0o600)
    assert (tmp_path / "etc/backup").stat().st_mode & 0o777 == 0o700


def test_the_same_text_is_not_written_again(tmp_path: Path) -> None:
    host(tmp_path).replace("/file", HostFile("text", 0o600), 0o755)
    before = (tmp_path / "file").stat().st_ino
    assert not host(tmp_path).replace("/file", HostFile("text", 0o644), 0o755)
    assert (tmp_path / "file").stat().st_ino == before


def test_an_absent_file_is_none_and_not_removed(tmp_path: Path) -> None:
    assert host(tmp_path).read("/absent") is None
    assert host(tmp_path).remove("/absent") is False


def test_a_folder_that_cannot_be_created_is_an_error_of_the_edit(tmp_path: Path) -> None:
    (tmp_path / "etc").write_text("no folder")
    with pytest.raises(ConfigError, match=r"cannot read .*etc/file: Not a directory"):
        host(tmp_path).replace("/etc/file", HostFile("text", 0o600), 0o755)


def test_a_file_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="/file is not text: byte 0 is not UTF-8"):
        host(tmp_path).read("/file")
