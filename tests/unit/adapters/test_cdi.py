"""The specifications in folders, as they change."""

import json
from pathlib import Path

from gpushare.adapters.cdi import CdiFolders

SPEC = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "GPU-a", "containerEdits": {}}]}


def test_missing_folders_are_empty(tmp_path: Path) -> None:
    assert CdiFolders([tmp_path / "none"]).read() == ((), ())


def test_files_of_all_folders_are_read_and_others_named(tmp_path: Path) -> None:
    one, two = tmp_path / "etc", tmp_path / "run"
    for folder in (one, two):
        folder.mkdir()
        (folder / "nvidia.json").write_text(json.dumps(SPEC))
    (one / "broken.yaml").write_text("kind: [")
    (one / "notes.txt").write_text("none")
    (one / "gone.json").symlink_to("/nowhere/x.json")
    found = CdiFolders([one, two]).read()
    assert [(each.path, each.priority) for each in found.specs] == [
        (str(one / "nvidia.json"), 0),
        (str(two / "nvidia.json"), 1),
    ]
    gone, broken = found.unread
    assert f"{one}/gone.json cannot be read" in gone
    assert f"{one}/broken.yaml is no CDI specification" in broken


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file, folders = tmp_path / "nvidia.json", CdiFolders([tmp_path])
    file.write_text(json.dumps(SPEC))
    first = folders.read()
    assert folders.read().specs[0] is first.specs[0]
    file.write_text(json.dumps({**SPEC, "devices": [*SPEC["devices"], {"name": "GPU-b"}]}))
    assert folders.read().specs[0].names == {"GPU-a", "GPU-b"}
    file.unlink()
    assert folders.read() == ((), ())
