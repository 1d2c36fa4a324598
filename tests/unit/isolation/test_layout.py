from pathlib import Path

from gpushare.isolation.layout import (
    DirectoryOwner,
    IsolationDirs,
    IsolationMounts,
    bind_mounts,
    directory_name,
    is_directory_name,
    is_version,
    isolation_mounts,
    link_of,
    owner_of,
)

FOLDERS = IsolationDirs()
STATE = Path("/run/gpushare")
OWNER = DirectoryOwner("8f4e6d1c-0000-4000-8000-000000000001", "main")
VERSION = "0123456789abcdef"
PLACE = directory_name(2**60 + 10)


def test_a_directory_has_the_name_of_its_owner() -> None:
    assert owner_of(link_of(STATE, OWNER).name) == OWNER


def test_an_unknown_name_has_no_owner() -> None:
    assert [owner_of(name) for name in ("lost+found", "_main", "uid_", "")] == [None] * 4


def test_a_version_is_the_beginning_of_a_digest() -> None:
    names = (VERSION, "current", "0123", "0123456789ABCDEF", VERSION + "0")
    assert [is_version(name) for name in names] == [True, False, False, False, False]


def test_a_container_can_write_nothing_but_its_region() -> None:
    found = bind_mounts(FOLDERS, IsolationMounts(VERSION, PLACE))
    assert [bind.inside for bind in found if not bind.read_only] == ["/.gpushare/region"]
    assert {bind.inside for bind in found} == {
        "/.gpushare-library",
        "/etc/ld.so.preload",
        "/.gpushare/libgpushare.so",
        "/.gpushare/limit",
        "/.gpushare/region",
    }


def test_container_runtimes_mount_the_guard_first() -> None:
    """They sort mounts by the number of slashes in the path of the container."""
    guard, *others = bind_mounts(FOLDERS, IsolationMounts(VERSION, PLACE))
    assert guard.inside.count("/") == 1
    assert all(bind.inside.count("/") > 1 for bind in others)


def test_the_container_directory_is_read_from_the_mounts() -> None:
    mounts = {bind.inside: bind.host for bind in bind_mounts(FOLDERS, IsolationMounts(VERSION, PLACE))}
    assert isolation_mounts(mounts) == IsolationMounts(VERSION, PLACE)
    assert isolation_mounts({**mounts, "/.gpushare/limit": "/data/limit"}) is None
    assert isolation_mounts({"/.gpushare/limit": "/run/gpushare/x/limit", "/dev/null": "/dev/null"}) is None
    assert isolation_mounts({}) is None


def test_the_name_of_a_container_directory_has_no_owner_and_a_link_is_no_directory() -> None:
    assert is_directory_name(PLACE)
    assert owner_of(PLACE) is None
    assert not is_directory_name(link_of(STATE, OWNER).name)


def test_the_build_for_launches_has_the_same_path_in_containers() -> None:
    memory, launches = (bind_mounts(FOLDERS, IsolationMounts(VERSION, PLACE, each)) for each in (False, True))
    assert [bind.inside for bind in launches] == [bind.inside for bind in memory]
    changed = [Path(bind.host).name for bind in launches if bind not in memory]
    assert changed == ["libgpushare-launch.so"]
    assert isolation_mounts({bind.inside: bind.host for bind in launches}) == IsolationMounts(
        VERSION, PLACE, launches=True
    )
