"""Limit files and regions on disk: the valid ones, and the errors for the others."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpushare.errors import SourceError
from gpushare.exporter.regions import IsolationState, LimitedContainer, isolation_of
from gpushare.isolation.files import UNUSED
from gpushare.isolation.layout import LIMIT, REGION, DirectoryOwner, link_of
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import CardUse, empty
from gpushare.isolation.region_layout import SIZE
from tests.support.builders.regions import region_bytes, write_container_directory

MIB = 1024 * 1024
LIMITS = (CardLimit("GPU-0", 15079, 4, 14), CardLimit("GPU-1", 15079, 2, 14))
OWNER = DirectoryOwner("some-uid", "main")
USES = (CardUse("GPU-0", 0, 5, 7, 1), CardUse("GPU-1", 0, 0, 0, 0))
SOUND = region_bytes(USES, [42])


def read(state: Path) -> IsolationState:
    """Where the processes of the node are not visible."""
    return isolation_of(state, [], state / "proc")


def only(state: Path) -> LimitedContainer:
    (container,) = read(state).containers
    return container


def unreadable(state: Path) -> str:
    """The problem of the only container, which has its limits but no region."""
    container = only(state)
    assert (container.owner, container.limits, container.region) == (OWNER, LIMITS, None)
    return container.problem


def test_a_node_without_isolation_has_nothing_to_read(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == IsolationState()


def test_limits_and_region_of_a_container_are_read(tmp_path: Path) -> None:
    write_container_directory(tmp_path, OWNER, LIMITS, SOUND)
    container = only(tmp_path)
    assert (container.owner, container.limits) == (OWNER, LIMITS)
    assert container.region
    assert [(use.uuid, use.used, use.peak, use.refusals) for use in container.region.cards] == [
        ("GPU-0", 5, 7, 1),
        ("GPU-1", 0, 0, 0),
    ]
    assert [process.pid for process in container.region.processes] == [42]


def test_where_no_process_of_the_node_is_visible_none_has_ended(tmp_path: Path) -> None:
    write_container_directory(tmp_path / "state", OWNER, LIMITS, SOUND)
    (tmp_path / "proc").mkdir()
    (container,) = isolation_of(tmp_path / "state", [7], tmp_path / "proc").containers
    assert container.region
    assert container.region.cards == USES


def test_where_the_host_is_visible_the_last_process_has_ended_too(tmp_path: Path) -> None:
    """As of a container that waits for its restart on a node without other GPU processes."""
    write_container_directory(tmp_path / "state", OWNER, LIMITS, SOUND)
    (tmp_path / "proc" / "2").mkdir(parents=True)
    (tmp_path / "proc" / "2" / "comm").write_text("kthreadd\n")
    (container,) = isolation_of(tmp_path / "state", [], tmp_path / "proc").containers
    assert container.region
    assert container.region.processes == ()


def test_a_container_with_an_empty_region_uses_nothing(tmp_path: Path) -> None:
    write_container_directory(tmp_path, OWNER, LIMITS, empty())
    assert only(tmp_path) == LimitedContainer(OWNER, LIMITS, UNUSED)


def test_inner_pids_are_read_only_if_there_are_limited_containers(tmp_path: Path) -> None:
    mine = os.getpid()
    assert isolation_of(tmp_path, [mine], Path("/proc")).inner_pids == {}
    write_container_directory(tmp_path, OWNER, LIMITS, empty())
    assert isolation_of(tmp_path, [mine], Path("/proc")).inner_pids == {mine: mine}


@pytest.mark.parametrize("name", ["0123456789abcdef", "_main", "uid_", "file"])
def test_directories_without_an_owner_are_ignored(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert read(tmp_path) == IsolationState()


def test_a_directory_removed_meanwhile_is_ignored(tmp_path: Path) -> None:
    link_of(tmp_path, OWNER).symlink_to("gone")
    link_of(tmp_path, DirectoryOwner("other", "main")).mkdir()
    assert read(tmp_path) == IsolationState()


def test_a_directory_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceError, match="file cannot be listed"):
        read(tmp_path / "file")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the region has 0 bytes"),
        (SOUND[:-1], f"the region has {SIZE - 1} bytes"),
        (b"x" * SIZE, "not a region of version"),
        (SOUND[:16] + b"\1" + SOUND[17:], "the region changed during each"),
        (region_bytes(), "no entry for GPU GPU-0"),
        (region_bytes([CardUse("GPU-0", 0, 0, 0, 0)]), "no entry for GPU GPU-1"),
        (region_bytes([CardUse("GPU-9", 0, 0, 0, 0), *USES[1:]]), "no entry for GPU GPU-0"),
        (region_bytes([CardUse("GPU-0", 0, 2**64 - 1, 0, 0), *USES[1:]]), f"{2**64 - 1} bytes"),
        (region_bytes([CardUse("GPU-0", 0, 2**64 - 1, 0, 0), *USES]), "has 2 entries for GPU GPU-0"),
        (
            region_bytes([CardUse("GPU-0", 0, 0, 15079 * MIB + 1, 0), *USES[1:]]),
            "GPU GPU-0, which has 15079 MiB",
        ),
    ],
)
def test_an_invalid_region_is_reported_and_the_limit_stays(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    write_container_directory(tmp_path, OWNER, LIMITS, content)
    assert reason in unreadable(tmp_path)


def to_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [to_link, os.mkfifo, os.mkdir])
def test_a_region_that_is_no_file_is_not_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    region = write_container_directory(tmp_path, OWNER, LIMITS, SOUND) / REGION
    region.unlink()
    make(region)
    assert unreadable(tmp_path)


def test_a_region_that_is_too_large_is_read_up_to_its_size(tmp_path: Path) -> None:
    """A file of a tebibyte would not fit into memory."""
    os.truncate(write_container_directory(tmp_path, OWNER, LIMITS, SOUND) / REGION, 1 << 40)
    found = only(tmp_path).region
    assert found is not None
    assert found.cards == USES


def test_an_unreadable_limit_affects_its_container_only(tmp_path: Path) -> None:
    (write_container_directory(tmp_path, OWNER, LIMITS, SOUND) / LIMIT).write_bytes(b"\xff")
    write_container_directory(tmp_path, DirectoryOwner("other", "main"), LIMITS, SOUND)
    found = read(tmp_path)
    assert {each.owner.uid: each.limits for each in found.containers} == {"some-uid": (), "other": LIMITS}
    assert found.unreadable == {"some-uid/main": "not a limit file of format 1"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 8192), st.binary(min_size=1, max_size=64)), max_size=8),
    st.integers(0, SIZE + 9),
)
def test_any_bytes_in_a_region_are_read_or_an_error(
    tmp_path: Path, writes: list[tuple[int, bytes]], size: int
) -> None:
    content = bytearray(SOUND + bytes(9))
    for at, written in writes:
        content[at : at + len(written)] = written
    write_container_directory(tmp_path, OWNER, LIMITS, bytes(content[: size if size < SIZE // 2 else SIZE]))
    container = only(tmp_path)
    assert (container.region is None) == bool(container.problem)
    for use in container.region.cards if container.region else ():
        if use.uuid in {limit.uuid for limit in LIMITS}:
            assert max(use.used, use.peak) <= 15079 * MIB
