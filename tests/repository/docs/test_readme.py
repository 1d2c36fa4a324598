"""The README is short, and its map has every folder at the top of the repository."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


def test_the_readme_fits_on_three_screens() -> None:
    assert len(README.splitlines()) <= 110


def test_the_map_has_each_top_folder_once() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S607 - the developer's git
    folders = {f"{path.split('/')[0]}/" for path in listed.stdout.splitlines() if "/" in path}
    # Git lists a link as a file.
    folders |= {f"{path.name}/" for path in ROOT.iterdir() if path.is_symlink()}
    rows = README.partition("## The folders")[2].partition("## ")[0]
    named = re.findall(r"`([\w.]+/)`", rows)
    assert sorted(named) == sorted(folders)
