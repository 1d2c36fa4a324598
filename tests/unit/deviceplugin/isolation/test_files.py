import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpushare.deviceplugin.core.allocations import Enforcement
from gpushare.deviceplugin.isolation.files import EnforcementFiles
from gpushare.errors import ConfigError
from gpushare.isolation import region
from gpushare.isolation.layout import DirectoryOwner, IsolationDirs, link_of
from gpushare.isolation.region_layout import SIZE
from tests.unit.deviceplugin.fixtures import VERSION, install_library

A, B = DirectoryOwner("uid-a", "main"), DirectoryOwner("uid-b", "main")
ONE, TWO = (
    Enforcement(f"{1:016x}", VERSION, "limit of one"),
    Enforcement(f"{2:016x}", VERSION, "limit of two"),
)


@pytest.fixture
def folders(tmp_path: Path) -> IsolationDirs:
    found = IsolationDirs(tmp_path / "libraries", tmp_path / "state")
    for folder in found:
        folder.mkdir()
    return found


@pytest.fixture
def files(folders: IsolationDirs) -> EnforcementFiles:
    return EnforcementFiles(folders)


def listed(folders: IsolationDirs) -> set[str]:
    return {path.name for path in folders.state.iterdir()}


def test_without_one_of_the_mounts_files_are_not_visible(tmp_path: Path, folders: IsolationDirs) -> None:
    assert EnforcementFiles(folders).visible
    assert not EnforcementFiles(folders._replace(state=tmp_path / "none")).visible
    assert not EnforcementFiles(folders._replace(libraries=tmp_path / "none")).visible


def test_a_library_on_a_mount_of_the_node_without_execution_is_known(
    tmp_path: Path, folders: IsolationDirs
) -> None:
    (tmp_path / "proc" / "1").mkdir(parents=True)
    mounts = f"30 21 8:1 / {tmp_path} rw,nosuid,noexec - ext4 /dev/sda1 rw\n"
    (tmp_path / "proc" / "1" / "mountinfo").write_text(mounts)
    assert EnforcementFiles(folders, tmp_path / "proc").noexec == str(tmp_path)
    assert EnforcementFiles(folders).noexec == ""


def test_the_current_version_is_the_one_that_new_containers_get(
    files: EnforcementFiles, folders: IsolationDirs
) -> None:
    assert files.library() is None
    install_library(folders.state.parent)
    assert files.library() == VERSION
    install_library(folders.state.parent, "f" * 16)
    assert files.library() == "f" * 16
    assert files.has(VERSION)


@pytest.mark.parametrize("name", ["libgpushare.so", "ld.so.preload"])
def test_an_incomplete_version_is_ignored(files: EnforcementFiles, folders: IsolationDirs, name: str) -> None:
    install_library(folders.state.parent)
    path = folders.libraries / VERSION / name
    path.unlink()
    assert files.library() is None
    path.mkdir()
    assert files.library() is None


def test_a_link_to_another_path_is_ignored(files: EnforcementFiles, folders: IsolationDirs) -> None:
    (folders.libraries / "current").symlink_to("/etc")
    assert files.library() is None


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_all_users_can_read_the_limit_and_write_the_region_with_any_umask(
    files: EnforcementFiles, folders: IsolationDirs, umask: int
) -> None:
    before = os.umask(umask)
    try:
        files.create(ONE)
    finally:
        os.umask(before)
    folder = folders.state / ONE.directory
    modes = [path.stat().st_mode & 0o7777 for path in (folder, folder / "limit", folder / "region")]
    assert modes == [0o755, 0o644, 0o666]


def test_a_container_directory_has_the_limit_and_a_region_without_holes(
    files: EnforcementFiles, folders: IsolationDirs
) -> None:
    files.create(ONE)
    folder = folders.state / ONE.directory
    assert (folder / "limit").read_text() == "limit of one"
    assert (folder / "region").read_bytes() == region.empty()
    assert (folder / "region").stat().st_blocks * 512 >= SIZE
    assert {path.name for path in folder.iterdir()} == {"limit", "region", "library"}


@pytest.mark.parametrize(("launches", "build"), [(False, "libgpushare.so"), (True, "libgpushare-launch.so")])
def test_the_guard_leads_to_the_library_of_the_container_or_nowhere(
    files: EnforcementFiles,
    folders: IsolationDirs,
    launches: bool,  # noqa: FBT001
    build: str,
) -> None:
    files.create(replace(ONE, launches=launches))
    guard = folders.state / ONE.directory / "library"
    assert guard.readlink() == folders.libraries / VERSION / build
    with pytest.raises(FileExistsError):
        guard.mkdir(parents=True)  # as a container runtime does
    (folders.libraries / VERSION).mkdir()
    guard.resolve().write_text("library")
    assert guard.read_text() == "library"


def test_an_existing_region_is_not_changed(files: EnforcementFiles, folders: IsolationDirs) -> None:
    files.create(ONE)
    path = folders.state / ONE.directory / "region"
    before = path.stat().st_ino
    path.write_bytes(b"in use")
    files.create(ONE)
    assert (path.read_bytes(), path.stat().st_ino) == (b"in use", before)


def test_directories_that_a_runtime_created_are_replaced_by_files(
    files: EnforcementFiles, folders: IsolationDirs
) -> None:
    paths = [folders.state / ONE.directory / name for name in ("limit", "region", "library")]
    for path in paths:
        path.mkdir(parents=True)
    files.create(ONE)
    assert not any(path.is_dir() for path in paths)


def test_missing_files_are_created_and_unused_ones_removed(
    files: EnforcementFiles, folders: IsolationDirs
) -> None:
    files.sync({A: ONE, B: TWO}, clear=True)
    assert link_of(folders.state, A).readlink() == Path(ONE.directory)
    assert (link_of(folders.state, B) / "limit").read_text() == "limit of two"
    files.sync({B: TWO}, clear=True)
    assert listed(folders) == {TWO.directory, "uid-b_main"}


def test_a_container_that_writes_in_place_of_its_region_is_alone_without_files(
    files: EnforcementFiles, folders: IsolationDirs
) -> None:
    """The container runtime mounts a directory that it has created in place of a region."""
    foreign = folders.state / ONE.directory / "region" / "file"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("")
    unused = folders.state / f"{3:016x}"
    unused.mkdir()
    with pytest.raises(ConfigError, match=f"cannot write {folders.state / ONE.directory}"):
        files.sync({A: ONE, B: TWO}, clear=True)
    assert (link_of(folders.state, B) / "limit").read_text() == "limit of two"
    assert not unused.exists()


def test_swapped_twins_exchange_links_and_keep_their_directories(
    files: EnforcementFiles, folders: IsolationDirs
) -> None:
    files.sync({A: ONE, B: TWO}, clear=True)
    files.sync({A: TWO, B: ONE}, clear=True)
    assert (link_of(folders.state, A) / "limit").read_text() == "limit of two"
    assert (link_of(folders.state, B) / "limit").read_text() == "limit of one"
    assert listed(folders) == {ONE.directory, TWO.directory, "uid-a_main", "uid-b_main"}


def test_nothing_is_removed_without_a_request(files: EnforcementFiles, folders: IsolationDirs) -> None:
    files.sync({A: ONE}, clear=True)
    files.sync({}, clear=False)
    assert listed(folders) == {ONE.directory, "uid-a_main"}


def test_files_of_others_stay(files: EnforcementFiles, folders: IsolationDirs) -> None:
    (folders.state / "others").mkdir()
    (folders.state / "file").write_text("")
    files.sync({}, clear=True)
    assert listed(folders) == {"others", "file"}


def test_the_error_for_a_directory_that_cannot_be_created_names_it(
    files: EnforcementFiles, folders: IsolationDirs
) -> None:
    (folders.state / ONE.directory).write_text("")
    with pytest.raises(ConfigError, match=f"state/{ONE.directory}"):
        files.create(ONE)


def test_a_link_that_cannot_be_made_is_named(files: EnforcementFiles, folders: IsolationDirs) -> None:
    (folders.state / "uid-a_main" / "x").mkdir(parents=True)
    with pytest.raises(ConfigError, match="state/uid-a_main"):
        files.sync({A: ONE}, clear=False)
