"""A directory watched by inotify, and the errors for unusable directories."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpushare.adapters.kubelet.folder import FolderWatch, check_folder
from gpushare.errors import KubeletError

LONG = "a-name-that-is-longer-than-the-kernel-s-unit-of-sixteen"


async def take(names: FolderWatch, number: int) -> list[str]:
    async with asyncio.timeout(5):
        return [await anext(names) for _ in range(number)]


async def test_created_and_deleted_files_are_reported_in_order(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.touch()
    folder = tmp_path / "folder"
    folder.mkdir()
    with FolderWatch(folder) as names:
        (folder / "file").touch()
        (folder / "file").rename(folder / LONG)
        (folder / LONG).unlink()
        outside.rename(folder / "moved-in")
        (folder / "moved-in").rename(outside)
        assert await take(names, 6) == ["file", "file", LONG, LONG, "moved-in", "moved-in"]


async def test_a_socket_that_is_bound_is_named(tmp_path: Path) -> None:
    with FolderWatch(tmp_path) as names, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "kubelet.sock"))
        assert await take(names, 1) == ["kubelet.sock"]


async def test_a_change_without_a_waiter_is_kept(tmp_path: Path) -> None:
    with FolderWatch(tmp_path) as names:
        waiting = asyncio.ensure_future(anext(names))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        (tmp_path / "ü").touch()
        assert await take(names, 1) == ["ü"]


async def test_writing_into_a_file_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with FolderWatch(tmp_path) as names:
        (tmp_path / "a").write_text("text")
        (tmp_path / "b").touch()
        assert await take(names, 1) == ["b"]


def queue_length() -> int:
    return int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


async def test_more_changes_than_the_kernel_keeps_are_an_empty_name(tmp_path: Path) -> None:
    limit = queue_length()
    if limit > 100_000:
        pytest.skip(f"the kernel keeps {limit} events here")
    here, there = tmp_path / "a", tmp_path / "b"
    with FolderWatch(tmp_path) as watch:
        here.touch()
        for _ in range(limit // 2 + 1):
            here, there = here.rename(there), here
        found: list[str] = []
        async with asyncio.timeout(10):
            while not found or found[-1]:
                found.append(await anext(watch))
    assert len(found) == limit + 1


@pytest.mark.parametrize("how", ["deleted", "moved"])
async def test_a_deleted_directory_is_an_error_after_its_changes(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with FolderWatch(folder) as names:
        (folder / "a").touch()
        (folder / "a").unlink()
        if how == "deleted":
            folder.rmdir()
        else:
            folder.rename(tmp_path / "elsewhere")
        assert await take(names, 2) == ["a", "a"]
        for _ in range(2):
            with pytest.raises(KubeletError, match=f"{folder} was deleted, moved or unmounted"):
                await take(names, 1)


@pytest.mark.parametrize(("name", "problem"), [("none", "No such file"), ("file", "Not a directory")])
def test_only_directories_can_be_watched(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "file").touch()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count
    with pytest.raises(KubeletError, match=f"{tmp_path}/{name}: {problem}"), FolderWatch(tmp_path / name):
        pass
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - a count


def test_a_usable_directory_has_no_error(tmp_path: Path) -> None:
    check_folder(tmp_path)


@pytest.mark.parametrize(("name", "problem"), [("none", ": No such file"), ("file", " is not a folder")])
def test_the_error_for_no_directory_has_the_mount(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(KubeletError, match=f"{tmp_path}/{name}{problem}.*; mount the kubelet's folder"):
        check_folder(tmp_path / name)


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Path]:
    """A folder that is the current one: the only way to name it after it was deleted."""
    before = Path.cwd()
    folder = tmp_path / "folder"
    folder.mkdir()
    os.chdir(folder)
    yield folder
    os.chdir(before)


def test_a_directory_deleted_beneath_its_mount_needs_a_restart(inside: Path) -> None:
    inside.rmdir()
    with pytest.raises(KubeletError, match="deleted on the host; a restart mounts"):
        check_folder(Path())


def test_the_error_for_a_read_only_directory_names_it(tmp_path: Path) -> None:
    folder = tmp_path
    if os.geteuid() == 0:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        read_only = [where for _, where, _, options, *_ in mounts if "ro" in options.split(",")]
        folder = next((Path(each) for each in read_only if Path(each).is_dir()), tmp_path)
        if folder == tmp_path:
            pytest.skip("root may write everywhere, and nothing is mounted read-only here")
    else:
        folder.chmod(0o555)
    with pytest.raises(KubeletError, match=f"{folder} cannot be written; mount it without readOnly"):
        check_folder(folder)
