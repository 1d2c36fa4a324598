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


def test_a_folder_tells_whose_it_is() -> None:
    assert owner_of(link_of(STATE, OWNER).name) == OWNER


def test_a_name_that_we_give_to_none_is_nobodys() -> None:
    assert [owner_of(name) for name in ("lost+found", "_main", "uid_", "")] == [None] * 4


def test_a_version_is_the_beginning_of_a_digest() -> None:
    names = (VERSION, "current", "0123", "0123456789ABCDEF", VERSION + "0")
    assert [is_version(name) for name in names] == [True, False, False, False, False]


def test_a_container_can_write_nothing_but_its_region() -> None:
    found = bind_mounts(FOLDERS, IsolationMounts(VERSION, PLACE))
    assert [bind.inside for bind in found if not bind.read_only] == ["/opt/gpushare/region"]
    assert {bind.inside for bind in found} == {
        "/etc/ld.so.preload",
        "/opt/gpushare/libgpushare.so",
        "/opt/gpushare/limit",
        "/opt/gpushare/region",
    }


def test_what_a_container_was_given_is_read_from_its_mounts() -> None:
    mounts = {bind.inside: bind.host for bind in bind_mounts(FOLDERS, IsolationMounts(VERSION, PLACE))}
    assert isolation_mounts(mounts) == IsolationMounts(VERSION, PLACE)
    assert isolation_mounts({**mounts, "/opt/gpushare/limit": "/data/limit"}) is None
    assert (
        isolation_mounts({"/opt/gpushare/limit": "/run/gpushare/x/limit", "/dev/null": "/dev/null"}) is None
    )
    assert isolation_mounts({}) is None


def test_a_place_is_nobodys_by_its_name_and_a_link_is_no_place() -> None:
    assert is_directory_name(PLACE)
    assert owner_of(PLACE) is None
    assert not is_directory_name(link_of(STATE, OWNER).name)


def test_the_build_for_launches_has_the_same_place_inside() -> None:
    memory, launches = (bind_mounts(FOLDERS, IsolationMounts(VERSION, PLACE, each)) for each in (False, True))
    assert [bind.inside for bind in launches] == [bind.inside for bind in memory]
    changed = [Path(bind.host).name for bind in launches if bind not in memory]
    assert changed == ["libgpushare-launch.so"]
    assert isolation_mounts({bind.inside: bind.host for bind in launches}) == IsolationMounts(
        VERSION, PLACE, launches=True
    )
