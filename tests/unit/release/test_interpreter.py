"""What is taken of Debian's packages for the Python of the plugins."""

import pytest

from devkit.errors import DevkitError
from release.archives import ArchiveFile
from release.interpreter import chosen

ARM = "usr/lib/aarch64-linux-gnu"
SYSTEM = {
    "usr/bin/python3.13": ArchiveFile(b"python", is_program=True),
    "usr/bin/perl": ArchiveFile(b"perl", is_program=True),
    "usr/lib/python3.13/os.py": ArchiveFile(b"os"),
    "usr/lib/python3/dist-packages/x.py": ArchiveFile(b"x"),
    f"{ARM}/ld-linux-aarch64.so.1": ArchiveFile(b"loader", is_program=True),
    f"{ARM}/libc.so.6": ArchiveFile(b"libc"),
    f"{ARM}/libz.so.1": ArchiveFile(link="libz.so.1.3"),
    f"{ARM}/gconv/UTF-16.so": ArchiveFile(b"gconv"),
    "usr/share/doc/libc6/copyright": ArchiveFile(b"LGPL"),
    "etc/passwd": ArchiveFile(b""),
}


def test_it_has_python_its_libraries_the_loader_and_the_licences() -> None:
    found = chosen(SYSTEM.items())
    assert (found.version, found.loader) == ("3.13", "ld-linux-aarch64.so.1")
    assert sorted(found.files) == [
        "python/bin/python3",
        "python/lib/ld-linux-aarch64.so.1",
        "python/lib/libc.so.6",
        "python/lib/libz.so.1",
        "python/lib/python3.13/os.py",
        "share/doc/libc6/copyright",
    ]


def test_releases_before_the_merge_of_usr_have_libraries_in_lib() -> None:
    old = {name.removeprefix("usr/") if ARM in name else name: file for name, file in SYSTEM.items()}
    assert chosen(old.items()).loader == "ld-linux-aarch64.so.1"


def test_a_system_without_python_is_an_error() -> None:
    with pytest.raises(DevkitError, match="one Python and one loader are expected"):
        chosen({})
