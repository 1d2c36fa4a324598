from pathlib import Path

from gpushare.isolation.layout import (
    Bound,
    IsolationDirs,
    Owner,
    binds,
    bound,
    folder_of,
    is_place,
    is_version,
    owner_of,
    place_named,
)

FOLDERS = IsolationDirs()
STATE = Path("/run/gpushare")
OWNER = Owner("8f4e6d1c-0000-4000-8000-000000000001", "main")
VERSION = "0123456789abcdef"
PLACE = place_named(2**60 + 10)


def test_a_folder_tells_whose_it_is() -> None:
    assert owner_of(folder_of(STATE, OWNER).name) == OWNER


def test_a_name_that_we_give_to_none_is_nobodys() -> None:
    assert [owner_of(name) for name in ("lost+found", "_main", "uid_", "")] == [None] * 4


def test_a_version_is_the_beginning_of_a_digest() -> None:
    names = (VERSION, "current", "0123", "0123456789ABCDEF", VERSION + "0")
    assert [is_version(name) for name in names] == [True, False, False, False, False]


def test_a_container_can_write_nothing_but_its_region() -> None:
    found = binds(FOLDERS, Bound(VERSION, PLACE))
    assert [bind.inside for bind in found if not bind.read_only] == ["/opt/gpushare/region"]
    assert {bind.inside for bind in found} == {
        "/etc/ld.so.preload",
        "/opt/gpushare/libgpushare.so",
        "/opt/gpushare/limit",
        "/opt/gpushare/region",
    }


def test_what_a_container_was_given_is_read_from_its_mounts() -> None:
    mounts = {bind.inside: bind.host for bind in binds(FOLDERS, Bound(VERSION, PLACE))}
    assert bound(mounts) == Bound(VERSION, PLACE)
    assert bound({**mounts, "/opt/gpushare/limit": "/data/limit"}) is None
    assert bound({"/opt/gpushare/limit": "/run/gpushare/x/limit", "/dev/null": "/dev/null"}) is None
    assert bound({}) is None


def test_a_place_is_nobodys_by_its_name_and_a_link_is_no_place() -> None:
    assert is_place(PLACE)
    assert owner_of(PLACE) is None
    assert not is_place(folder_of(STATE, OWNER).name)


def test_the_build_for_launches_has_the_same_place_inside() -> None:
    memory, launches = (binds(FOLDERS, Bound(VERSION, PLACE, each)) for each in (False, True))
    assert [bind.inside for bind in launches] == [bind.inside for bind in memory]
    changed = [Path(bind.host).name for bind in launches if bind not in memory]
    assert changed == ["libgpushare-launch.so"]
    assert bound({bind.inside: bind.host for bind in launches}) == Bound(VERSION, PLACE, launches=True)
