from pathlib import Path

from gpushare.isolation.layout import Owner, binds, folder_of, is_version, owner_of

STATE, LIBRARIES = Path("/run/gpushare"), Path("/usr/local/gpushare")
OWNER = Owner("8f4e6d1c-0000-4000-8000-000000000001", "main")
VERSION = "0123456789abcdef"


def test_a_folder_tells_whose_it_is() -> None:
    assert owner_of(folder_of(STATE, OWNER).name) == OWNER


def test_a_name_that_we_give_to_none_is_nobodys() -> None:
    assert [owner_of(name) for name in ("lost+found", "_main", "uid_", "")] == [None] * 4


def test_a_version_is_the_beginning_of_a_digest() -> None:
    names = (VERSION, "current", "0123", "0123456789ABCDEF", VERSION + "0")
    assert [is_version(name) for name in names] == [True, False, False, False, False]


def test_a_container_can_write_nothing_but_its_region() -> None:
    found = binds(LIBRARIES, VERSION, folder_of(STATE, OWNER))
    assert [bind.inside for bind in found if not bind.read_only] == ["/opt/gpushare/region"]
    assert {bind.inside for bind in found} == {
        "/etc/ld.so.preload",
        "/opt/gpushare/libgpushare.so",
        "/opt/gpushare/limit",
        "/opt/gpushare/region",
    }
