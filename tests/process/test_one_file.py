"""The plugin as one file: what its shell script does before the program in it starts."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from release import krew
from release.archives import ArchiveFile, tar_gz

PLATFORM = krew.PLATFORMS[0]
PROGRAM = b'#!/bin/sh\necho "ran $(basename -- "$0") $*"\n'


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """An archive with two small programs, in a folder with a space."""
    names = ("kubectl-gpushare", "kubectl-inspect-cgpu")
    packed = tar_gz({name: ArchiveFile(PROGRAM, is_program=True) for name in names})
    path = tmp_path / "my plugins/kubectl-gpushare"
    path.parent.mkdir()
    path.write_bytes(krew.one_file(PLATFORM, packed))
    path.chmod(0o755)
    return path


def start(plugin: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own program
        [plugin, "top", "a b"],
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_it_unpacks_once_into_the_cache_and_passes_its_arguments_on(plugin: Path, tmp_path: Path) -> None:
    for _ in range(2):
        done = start(plugin, HOME=str(tmp_path))
        assert (done.stdout, done.stderr) == ("ran kubectl-gpushare top a b\n", "")
    (unpacked,) = (tmp_path / ".cache/gpushare").iterdir()
    assert unpacked.stat().st_mode & 0o077 == 0


def test_its_name_chooses_the_command(plugin: Path, tmp_path: Path) -> None:
    other = plugin.rename(plugin.with_name("kubectl-inspect-cgpu"))
    assert start(other, HOME=str(tmp_path)).stdout == "ran kubectl-inspect-cgpu top a b\n"


def test_several_first_starts_at_once_all_run(plugin: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: start(plugin, HOME=str(tmp_path)), range(8)))
    assert {(each.returncode, each.stdout) for each in found} == {(0, "ran kubectl-gpushare top a b\n")}
    assert len(list((tmp_path / ".cache/gpushare").iterdir())) == 1


def test_without_a_home_the_way_out_is_said(plugin: Path) -> None:
    done = start(plugin)
    assert (done.returncode, done.stderr) == (
        1,
        "Error: HOME is not set: set XDG_CACHE_HOME to a folder for the libraries of kubectl gpushare\n",
    )


def test_a_cache_that_cannot_be_written_is_named(plugin: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = start(plugin, HOME=str(tmp_path / "file"))
    assert done.returncode == 1
    *_, last = done.stderr.splitlines()
    assert last == (
        f"Error: {tmp_path}/file/.cache/gpushare cannot be written: set XDG_CACHE_HOME to another folder"
    )


def test_a_damaged_file_leaves_nothing_behind(plugin: Path, tmp_path: Path) -> None:
    plugin.write_bytes(plugin.read_bytes()[:-200])
    done = start(plugin, HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"Error: {plugin} cannot be unpacked into {tmp_path}/.cache/gpushare: "
        "free space there, or download the file again"
    )
    assert list((tmp_path / ".cache/gpushare").iterdir()) == []


def test_an_interrupted_start_leaves_nothing_behind(plugin: Path, tmp_path: Path) -> None:
    # As Ctrl-C while it unpacks.
    tar = tmp_path / "bin/tar"
    tar.parent.mkdir()
    tar.write_text('#!/bin/sh\nkill -INT "$PPID"\n')
    tar.chmod(0o755)
    path = f"{tar.parent}:{os.environ['PATH']}"
    start(plugin, HOME=str(tmp_path), PATH=path)
    assert list((tmp_path / ".cache/gpushare").iterdir()) == []
