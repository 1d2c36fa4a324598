import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.errors import ConfigError
from gpushare.installer import install as module
from gpushare.installer.install import SUMS, install, prune, withdraw
from gpushare.isolation.layout import PRELOAD_TEXT, is_version
from gpushare.isolation.versions import UnknownUsage, current_version, installed_versions
from tests.support.builders.library_package import package

NO_VERSIONS = frozenset[str]()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "node" / "gpushare"


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return package(tmp_path / "one")


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return package(tmp_path / "two", "two")


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


def test_the_library_and_its_preload_file_are_reached_by_the_link(one: Path, folder: Path) -> None:
    version = install(one, folder)
    assert is_version(version)
    assert (folder / "current").readlink() == Path(version)
    assert (folder / "current" / "libgpushare.so").read_text() == "one"
    assert (folder / "current" / "ld.so.preload").read_text() == PRELOAD_TEXT


def test_all_libraries_of_a_package_are_one_version(tmp_path: Path, folder: Path) -> None:
    versions = [install(package(tmp_path / "p", "a", launch), folder) for launch in ("b", "c")]
    assert versions[0] != versions[1]
    assert (folder / "current" / "libgpushare-launch.so").read_text() == "c"


def test_the_same_package_is_the_same_version_wherever_it_is(one: Path, tmp_path: Path, folder: Path) -> None:
    assert install(one, folder) == install(package(tmp_path / "copy"), tmp_path / "elsewhere")


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_all_users_can_read_and_only_root_can_write_with_any_umask(
    one: Path, folder: Path, mask: int
) -> None:
    before = os.umask(mask)
    try:
        version = install(one, folder)
    finally:
        os.umask(before)
    assert modes(folder) == {
        version: 0o755,
        "current": 0o755,
        f"{version}/libgpushare.so": 0o755,
        f"{version}/ld.so.preload": 0o644,
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_a_second_time_nothing_is_written(one: Path, folder: Path) -> None:
    def look() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.lstat().st_ino, path.lstat().st_mtime_ns)
            for path in (folder, *folder.rglob("*"))
        }

    install(one, folder)
    before = look()
    install(one, folder)
    assert look() == before


def test_the_next_version_leaves_the_files_of_the_last_one_alone(one: Path, two: Path, folder: Path) -> None:
    first = install(one, folder)
    second = install(two, folder)
    assert installed_versions(folder) == tuple(sorted((first, second)))
    assert current_version(folder) == second
    assert (folder / first / "libgpushare.so").read_text() == "one"


def truncated(path: Path) -> None:
    path.write_text("")


def writable(path: Path) -> None:
    path.chmod(0o777)


def a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


@pytest.mark.parametrize("spoil", [truncated, writable, Path.unlink, a_link, a_folder])
@pytest.mark.parametrize("name", ["libgpushare.so", "ld.so.preload"])
def test_a_damaged_file_is_repaired(
    one: Path, folder: Path, name: str, spoil: Callable[[Path], None]
) -> None:
    version = install(one, folder)
    wanted = {path: (path.read_bytes(), path.stat().st_mode) for path in (folder / version).iterdir()}
    spoil(folder / version / name)
    assert install(one, folder) == version
    assert {
        path: (path.read_bytes(), path.lstat().st_mode) for path in (folder / version).iterdir()
    } == wanted


def test_mapped_files_are_not_modified(one: Path, folder: Path) -> None:
    path = folder / install(one, folder) / "libgpushare.so"
    path.write_text("spoiled")
    with path.open() as mapped:
        install(one, folder)
        assert mapped.read() == "spoiled"
        assert path.stat().st_ino != os.fstat(mapped.fileno()).st_ino


def dangling(folder: Path) -> None:
    (folder / "current").unlink()
    (folder / "current").symlink_to("nowhere")


def a_file_in_its_place(folder: Path) -> None:
    (folder / "current").unlink()
    (folder / "current").write_text("what is this")


@pytest.mark.parametrize("spoil", [dangling, a_file_in_its_place, withdraw])
def test_the_link_is_repaired(one: Path, folder: Path, spoil: Callable[[Path], None]) -> None:
    version = install(one, folder)
    spoil(folder)
    assert current_version(folder) is None
    install(one, folder)
    assert current_version(folder) == version


def test_the_error_for_a_directory_in_place_of_the_link_names_it(one: Path, folder: Path) -> None:
    (folder / "current").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"cannot write .*/gpushare/current: Is a directory"):
        install(one, folder)


def test_a_file_at_the_path_of_a_version_is_replaced(one: Path, folder: Path) -> None:
    version = install(one, folder)
    module._remove(folder / version)
    (folder / version).symlink_to("/etc")
    install(one, folder)
    assert (folder / version / "libgpushare.so").read_text() == "one"
    assert not (folder / version).is_symlink()


def test_leftovers_of_a_killed_installer_are_removed(one: Path, folder: Path) -> None:
    half = folder / ".0123456789abcdef.draft"
    half.mkdir(parents=True)
    (half / "libgpushare.so").write_text("ha")
    (folder / ".current.draft").symlink_to("0123456789abcdef")
    version = install(one, folder)
    assert {path.name for path in folder.iterdir()} == {"current", version}


def test_the_error_for_a_modified_library_names_it(one: Path, folder: Path) -> None:
    (one / "libgpushare.so").write_text("other")
    with pytest.raises(ConfigError, match=r"one/libgpushare\.so does not match SHA256SUMS: its SHA-256 is d"):
        install(one, folder)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "SHA256SUMS does not list libgpushare.so"),
        ("0123  libgpushare.so\n", "'0123  libgpushare.so' is not a checksum"),
        (f"{'0' * 64}  ../libgpushare.so\n", "is not a checksum and the name of a library"),
        (f"{'0' * 64}  other.so\n", "does not list libgpushare.so: pull or build the image again"),
    ],
)
def test_empty_checksums_are_refused(one: Path, folder: Path, text: str, problem: str) -> None:
    (one / SUMS).write_text(text)
    with pytest.raises(ConfigError, match=problem):
        install(one, folder)


@pytest.mark.parametrize("name", [SUMS, "libgpushare.so"])
def test_a_package_that_is_not_whole_is_refused(one: Path, folder: Path, name: str) -> None:
    (one / name).unlink()
    with pytest.raises(ConfigError, match=f"one/{name} is missing: pull or build the image again"):
        install(one, folder)


def test_the_error_for_an_unwritable_directory_names_it(one: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot write /proc/nothing: "):
        install(one, Path("/proc/nothing"))


def test_an_installer_waits_for_a_locked_directory(one: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    waiting = threading.Event()
    with ThreadPoolExecutor() as threads, pytest.MonkeyPatch.context() as patch:
        pause = time.sleep

        def noted(seconds: float) -> None:
            waiting.set()
            pause(seconds)

        patch.setattr(time, "sleep", noted)
        installing = threads.submit(install, one, folder)
        assert waiting.wait(10)
        assert current_version(folder) is None
        os.close(handle)
        assert installing.result(10) == current_version(folder)


@pytest.mark.parametrize("kind", [fcntl.LOCK_EX, fcntl.LOCK_SH])
def test_a_lock_that_is_not_released_is_an_error(one: Path, folder: Path, kind: int) -> None:
    folder.mkdir(parents=True)
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, kind)
    with pytest.raises(ConfigError, match=r"another installer has locked .*gpushare for 0\.1 s"):
        install(one, folder, lock_s=0.1)
    os.close(handle)


@given(cut=st.integers(0, 40))
def test_an_installer_that_is_killed_at_any_step_leaves_no_half_version(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    top = tmp_path_factory.mktemp("killed")
    one, two, folder = package(top / "one"), package(top / "two", "two"), top / "node"
    install(one, folder)
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, cut)
        with suppress(Killed):
            install(two, folder)
    version = current_version(folder)
    assert version is not None
    assert (folder / version / "libgpushare.so").read_text() in {"one", "two"}
    for each in installed_versions(folder):
        assert {path.name for path in (folder / each).iterdir()} == {"libgpushare.so", "ld.so.preload"}
    install(two, folder)
    assert (folder / "current" / "libgpushare.so").read_text() == "two"
    assert not list(folder.glob(".*"))


class Killed(BaseException):
    """The end of a process."""


def dying(patch: pytest.MonkeyPatch, steps: int) -> None:
    """The process ends at that call among those that change the disk, counted from 0."""
    left = iter(range(steps))

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **kwargs: object) -> object:
            if next(left, None) is None:
                raise Killed
            return call(*args, **kwargs)

        return step

    for name in ("mkdir", "replace", "symlink_to", "open", "chmod"):
        patch.setattr(Path, name, counted(getattr(Path, name)))


def test_unused_versions_are_removed(one: Path, two: Path, folder: Path) -> None:
    first, second = install(one, folder), install(two, folder)
    assert prune(folder, NO_VERSIONS) == {second: "new containers get it"}
    assert installed_versions(folder) == (second,)
    assert not (folder / first).exists()


def test_a_version_that_a_container_has_stays(one: Path, two: Path, folder: Path) -> None:
    first, second = install(one, folder), install(two, folder)
    assert prune(folder, frozenset({first})) == {
        first: "in use by containers",
        second: "new containers get it",
    }
    assert (folder / first / "libgpushare.so").read_text() == "one"


def test_every_version_stays_while_the_used_ones_are_unknown(one: Path, two: Path, folder: Path) -> None:
    first, second = install(one, folder), install(two, folder)
    assert prune(folder, UnknownUsage("no record"))[first] == "may be in use: no record"
    assert len(installed_versions(folder)) == len({first, second})


def test_files_that_are_no_versions_are_kept(one: Path, folder: Path) -> None:
    install(one, folder)
    (folder / "README").write_text("mine")
    prune(folder, NO_VERSIONS)
    assert (folder / "README").read_text() == "mine"


def test_without_the_link_new_containers_get_nothing_and_the_others_keep_theirs(
    one: Path, folder: Path
) -> None:
    version = install(one, folder)
    withdraw(folder)
    assert current_version(folder) is None
    assert prune(folder, frozenset({version})) == {version: "in use by containers"}
    assert prune(folder, NO_VERSIONS) == {}
    assert list(folder.iterdir()) == []


def test_without_an_installation_nothing_is_removed(folder: Path) -> None:
    withdraw(folder)
    assert prune(folder, NO_VERSIONS) == {}
    assert not folder.exists()


def test_a_file_in_place_of_the_folder_is_an_error_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "gpushare"
    file.write_text("mine")
    with pytest.raises(ConfigError, match=f"{file} is not a folder"):
        withdraw(file)
    assert file.read_text() == "mine"
    withdraw(tmp_path / "missing")
