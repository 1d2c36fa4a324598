"""The module that writes settings files of other programs, as ansible-playbook runs it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ansible.cores import CORES, play


def write(core: str, tmp_path: Path, *flags: str, **options: Any) -> dict[str, Any]:
    """The result of the module for ``settings`` in the folder of the test."""
    task = {"gpushare.nodes.write_file": {"path": str(tmp_path / "etc/settings"), **options}}
    after = {"ansible.builtin.copy": {"content": "{{ done | to_json }}", "dest": str(tmp_path / "done.json")}}
    tasks = [
        {"name": "Write", **task, "register": "done", "ignore_errors": True},
        {"name": "Keep the result", **after, "check_mode": False},
    ]
    done = play(core, tmp_path, tasks, *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads((tmp_path / "done.json").read_text())
    return result


@pytest.mark.parametrize("core", CORES)
def test_a_new_file_has_its_text_permissions_and_record(core: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    done = write(core, tmp_path, content="größer\n", mode="0600", folder_mode="0700", record=str(record))
    file = tmp_path / "etc/settings"
    assert (done["changed"], file.read_text()) == (True, "größer\n")
    assert [file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777] == [0o600, 0o700]
    assert record.read_text() == f"{file} changed\n"
    assert [each.name for each in file.parent.iterdir()] == ["settings"]


def present(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "etc/settings"
    file.parent.mkdir()
    file.write_text(text)
    file.chmod(0o640)
    return file


def test_the_same_text_changes_nothing_and_writes_no_record(tmp_path: Path) -> None:
    present(tmp_path, "same\n")
    done = write("2.19", tmp_path, content="same\n", record=str(tmp_path / "record"), backup=True)
    assert done["changed"] is False
    assert not (tmp_path / "record").exists()


def test_another_text_keeps_permissions_and_the_former_file(tmp_path: Path) -> None:
    file = present(tmp_path, "old\n")
    done = write("2.19", tmp_path, content="new\n", backup=True)
    assert "diff" not in done
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new\n", 0o640)
    assert Path(done["backup_file"]).read_text() == "old\n"


def test_an_invalid_file_is_not_written_and_leaves_nothing(tmp_path: Path) -> None:
    file = present(tmp_path, "old\n")
    record = tmp_path / "record"
    done = write(
        "2.19", tmp_path, content="new\n", validate="grep -q old %s", record=str(record), backup=True
    )
    assert "settings is not valid" in done["msg"]
    assert file.read_text() == "old\n"
    assert [each.name for each in file.parent.iterdir()] == ["settings"]
    assert not record.exists()


def test_a_link_to_the_file_of_another_program_stays_one(tmp_path: Path) -> None:
    file = present(tmp_path, "old\n")
    target = file.rename(tmp_path / "target")
    file.symlink_to(target)
    write("2.19", tmp_path, content="new\n")
    assert file.is_symlink()
    assert target.read_text() == "new\n"


def test_check_mode_shows_the_change_without_the_folder(tmp_path: Path) -> None:
    done = write("2.19", tmp_path, "--check", "--diff", content="new\n", validate="false %s")
    assert done["changed"] is True
    assert (done["diff"]["before"], done["diff"]["after"]) == ("", "new\n")
    assert not (tmp_path / "etc").exists()
