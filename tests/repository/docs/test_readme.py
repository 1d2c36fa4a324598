"""The README is short and shows the board; the map of CONTRIBUTING has every folder at the top."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def test_the_readme_fits_on_three_screens() -> None:
    assert len(README.splitlines()) <= 110


def test_the_readme_shows_the_board() -> None:
    (board,) = re.findall(r"\((docs/how-to/board/\w+\.png)\)", README)
    assert (ROOT / board).is_file()


def test_the_map_has_each_top_folder_once() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S607 - the developer's git
    folders = {f"{path.split('/')[0]}/" for path in listed.stdout.splitlines() if "/" in path}
    # Git lists a link as a file.
    folders |= {f"{path.name}/" for path in ROOT.iterdir() if path.is_symlink()}
    rows = CONTRIBUTING.partition("## The folders")[2].partition("## ")[0]
    named = re.findall(r"`([\w.]+/)`", rows)
    assert sorted(named) == sorted(folders)
