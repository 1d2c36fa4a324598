"""Folders, ports, locks, cgroups, commands and waiting, without a control plane."""

import asyncio
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from devkit import pids, ports
from devkit.errors import DevkitError
from devkit.folders import bed_folder, cache_root, data_folder, writable_cache
from devkit.locks import FileLock, create_once, exclusive
from devkit.process import run_text
from devkit.waiting import finish, together, until
from gpushare.errors import ApiError, ConfigError
from testbed import cgroups


def test_a_group_runs_until_its_last_process_has_ended() -> None:
    script = "sleep 60 & echo $!; exec >&-; wait"
    with subprocess.Popen(  # noqa: S603 - our own script
        ["/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as leader:
        assert leader.stdout
        child = int(leader.stdout.readline())
        leader.kill()
        leader.wait()
        assert pids.is_group_running(leader.pid)
        descriptor = os.pidfd_open(child)
        os.kill(child, signal.SIGKILL)
        select.select([descriptor], [], [], 10)
        os.close(descriptor)
        assert not pids.is_group_running(leader.pid)


@pytest.mark.parametrize(
    ("env", "root"),
    [
        ({"GPUSHARE_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/gpushare"),
        ({"HOME": "/h"}, "/h/.cache/gpushare"),
    ],
)
def test_the_environment_selects_the_cache(env: dict[str, str], root: str) -> None:
    assert cache_root(env) == Path(root)


def test_a_cache_that_cannot_be_written_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = {"GPUSHARE_CACHE": str(tmp_path / "file" / "cache")}
    with pytest.raises(ConfigError, match=r"file/cache .*Not a directory.* set GPUSHARE_CACHE"):
        writable_cache(env)
    assert writable_cache({"GPUSHARE_CACHE": str(tmp_path / "new")}).is_dir()


async def test_a_missing_program_is_named() -> None:
    with pytest.raises(DevkitError, match="cannot run `/no/program --flag`: No such file"):
        await run_text(["/no/program", "--flag"], 10)


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "a" * 41])
def test_a_name_that_is_not_a_plain_word_is_rejected(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a folder"):
        bed_folder(name, Path("/cache"))


def test_testbeds_do_not_share_data(tmp_path: Path) -> None:
    assert data_folder(tmp_path / "a", tmp_path) != data_folder(tmp_path / "b", tmp_path)


def test_ports_are_different_free_and_below_the_ephemeral_range() -> None:
    taken = set(range(10_000, 20_000, 2))

    def take(port: int) -> bool:
        is_free = port not in taken
        taken.add(port)
        return is_free

    chosen = ports.choose(20, 20_000, take)
    assert len(set(chosen)) == 20
    assert all(10_000 <= port < 20_000 and port % 2 for port in chosen)


HOLDER = """
import sys
from pathlib import Path
from devkit.ports import Reservations

reservations = Reservations(Path(sys.argv[1]))
print(*filter(reservations.take, map(int, sys.argv[2:])), flush=True)
sys.stdin.read()
"""


def test_a_port_is_reserved_until_its_process_exits(tmp_path: Path) -> None:
    file = tmp_path / "ports"
    own = ports.Reservations(file)
    ours, theirs = ports.free_ports(2)
    assert own.take(ours)
    assert not own.take(ours)
    argv = [sys.executable, "-c", HOLDER, str(file), str(ours), str(theirs)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:  # noqa: S603
        assert holder.stdout is not None
        assert holder.stdout.readline() == f"{theirs}\n"
        assert not own.take(theirs)
    assert own.take(theirs)


def test_a_port_that_a_server_uses_on_any_address_is_not_taken(tmp_path: Path) -> None:
    (port,) = ports.free_ports(1)
    with socket.create_server(("127.0.0.2", port)):
        assert not ports.Reservations(tmp_path / "ports").take(port)


def test_a_lock_is_exclusive(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.try_acquire()
    assert not second.try_acquire()
    first.release()
    assert second.try_acquire()
    second.release()


async def test_waiting_for_a_lock_has_a_deadline(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    assert lock.try_acquire()
    with pytest.raises(DevkitError, match="another build has kept"):
        async with exclusive(lock.path, 0.01, "another build"):
            pass
    lock.release()


async def test_a_folder_of_the_cache_is_created_once(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    created: list[Path] = []

    async def create(fresh: Path) -> None:
        created.append(fresh)
        await asyncio.sleep(0)
        shutil.copytree(tmp_path / "source", fresh)

    folders = await together(create_once(tmp_path / "base", create, 10, "another test") for _ in range(2))
    assert folders == [tmp_path / "base"] * 2
    assert (tmp_path / "base").is_dir()
    assert len(created) == 1


async def test_a_failed_creation_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()

    async def create(fresh: Path) -> None:
        shutil.copytree(tmp_path / "source", fresh)
        raise DevkitError("no space left")

    for _ in range(2):
        with pytest.raises(DevkitError, match="no space left"):
            await create_once(tmp_path / "base", create, 10, "another test")
    assert not (tmp_path / "base").exists()


async def test_a_run_that_overloads_its_machine_waits_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> bool:
        return False

    monkeypatch.setenv("GPUSHARE_TIMEOUT_FACTOR", "4")
    with pytest.raises(DevkitError, match=r"after 0\.04 s"):
        await until(ask, "peace", timeout_s=0.01, poll_s=0.001)


async def test_a_timeout_reports_the_last_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> bool:
        raise ApiError("refused", status=503)

    monkeypatch.delenv("GPUSHARE_TIMEOUT_FACTOR", raising=False)
    with pytest.raises(DevkitError, match=r"after 0\.02 s waiting for peace; last result: .*refused"):
        await until(ask, "peace", timeout_s=0.02, poll_s=0.001)


async def test_the_first_of_several_errors_is_raised() -> None:
    async def fail() -> None:
        raise ConfigError("wrong")

    with pytest.raises(ConfigError, match="wrong"):
        await together([fail(), fail()])


async def test_finish_completes_its_work_before_it_raises_a_cancellation() -> None:
    begun, go, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await go.wait()
        done.set()

    task = asyncio.create_task(finish(work()))
    await begun.wait()
    task.cancel()
    # The cancellation is delivered before the work may continue.
    await asyncio.sleep(0)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


def test_a_folder_without_cgroups_has_no_hierarchies(tmp_path: Path) -> None:
    assert cgroups.hierarchies(tmp_path) == []


def unified(root: Path, controllers: str = "cpuset cpu io memory pids rdma") -> Path:
    """A tree of cgroup v2 as files that any process may write."""
    (root / "cgroup.controllers").write_text(f"{controllers}\n")
    (root / "cgroup.subtree_control").write_text("\n")
    (root / "system.slice").mkdir()
    (root / "system.slice" / "cgroup.procs").touch()
    return root


def test_cgroup_v2_has_one_hierarchy(tmp_path: Path) -> None:
    assert cgroups.hierarchies(unified(tmp_path)) == [tmp_path]


def test_in_cgroup_v2_programs_are_beside_the_cgroups_that_they_create(tmp_path: Path) -> None:
    cgroups.create("bed.a", unified(tmp_path))
    assert cgroups.top("bed.a", tmp_path) == f"{tmp_path}/bed.a/cgroup.procs"
    assert cgroups.programs("bed.a", tmp_path) == f"{tmp_path}/bed.a/programs/cgroup.procs"
    assert (tmp_path / "bed.a" / "programs").is_dir()
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpuset +cpu +io +memory +pids"


def test_in_cgroup_v1_programs_are_in_the_cgroup_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cgroup.procs").touch()
    cgroups.create("bed.a", tmp_path)
    assert cgroups.top("bed.a", tmp_path) == cgroups.programs("bed.a", tmp_path)
    assert (tmp_path / "cpu" / "bed.a").is_dir()
    assert cgroups.divisible("bed.a", tmp_path) is None


def test_the_root_of_a_machine_lacks_no_controller_that_the_kernel_has(tmp_path: Path) -> None:
    assert cgroups.lacking(unified(tmp_path)) == []


def test_the_root_of_a_container_lacks_controllers_that_its_children_do_not_have(tmp_path: Path) -> None:
    unified(tmp_path)
    (tmp_path / "cgroup.type").write_text("domain\n")
    assert cgroups.lacking(tmp_path) == ["cpu", "memory", "pids"]
    (tmp_path / "cgroup.subtree_control").write_text("cpu pids\n")
    assert cgroups.lacking(tmp_path) == ["memory"]


def test_a_kernel_without_a_required_controller_is_told(tmp_path: Path) -> None:
    assert cgroups.lacking(unified(tmp_path, "cpuset cpu io")) == ["memory", "pids"]


def test_only_matching_cgroups_are_removed_with_those_below(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cgroup.procs").touch()
    for name in ("bed.a/kubepods/pod", "bed.ab", "other.a"):
        (tmp_path / "cpu" / name).mkdir(parents=True)
    cgroups.remove("bed.a", tmp_path)
    assert {each.name for each in (tmp_path / "cpu").glob("*/")} == {"bed.ab", "other.a"}
    cgroups.remove("bed.*", tmp_path)
    assert {each.name for each in (tmp_path / "cpu").glob("*/")} == {"other.a"}


def test_testbeds_do_not_share_cgroups() -> None:
    assert cgroups.prefix_of(Path("/beds/a")) != cgroups.prefix_of(Path("/beds/b"))
