"""Writes of the agent to a region; reading is in the exporter's tests."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpushare.errors import SourceError
from gpushare.isolation.files import region_size, shrink_region, write_region
from gpushare.isolation.region import Write, empty
from gpushare.isolation.region_layout import HEADER, LAYOUT, MAGIC, SIZE, SLOTS, VERSION

WRITES = [Write(8, b"new"), Write(9, b"E")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "region"
    found.write_bytes(empty())
    return found


def test_words_are_written_in_order_and_nothing_else_changes(path: Path) -> None:
    write_region(path, WRITES)
    content = path.read_bytes()
    assert content[8:11] == b"nEw"
    assert content[:8] + content[11:] == bytes(SIZE - 3)


@pytest.mark.parametrize("size", [0, 10])
def test_a_file_that_is_too_small_for_one_of_the_writes_is_left_alone(path: Path, size: int) -> None:
    os.truncate(path, size)
    with pytest.raises(SourceError, match=f"the region has {size} bytes instead of at least 11"):
        write_region(path, WRITES)
    assert path.read_bytes() == bytes(size)


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [linked, piped, as_folder, Path.unlink])
def test_a_path_that_is_no_file_is_not_written(path: Path, spoil: Callable[[Path], None]) -> None:
    spoil(path)
    with pytest.raises((OSError, SourceError)):
        write_region(path, WRITES)
    elsewhere = path.with_name("elsewhere")
    assert not elsewhere.exists() or elsewhere.read_bytes() == empty()


def test_a_new_region_should_have_the_size_of_the_current_layout(path: Path) -> None:
    os.truncate(path, SIZE + 7)
    assert region_size(path) == (SIZE + 7, SIZE)


@pytest.mark.parametrize("content", [b"", b"x", b"x" * SIZE])
def test_a_region_with_an_invalid_header_should_have_the_size_of_a_new_one(
    path: Path, content: bytes
) -> None:
    path.write_bytes(content)
    assert region_size(path) == (len(content), SIZE)


def test_a_region_of_a_later_layout_keeps_its_size(path: Path) -> None:
    """An agent that was downgraded does not cut the regions of running containers."""
    later = LAYOUT._replace(slots=SLOTS + 44)
    path.write_bytes(bytes(later.size + 9))
    with path.open("r+b") as file:
        file.write(HEADER.pack(MAGIC, VERSION, later.size, 0, *later, 0, 0))
    assert region_size(path) == (later.size + 9, later.size)


EARLIER = LAYOUT._replace(slots=256)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [(EARLIER.size - 1, EARLIER.size), (EARLIER.size, EARLIER.size), (SIZE, SIZE), (SIZE + 9, SIZE)],
)
def test_a_region_of_an_earlier_library_may_be_as_large_as_a_new_one(
    path: Path, actual: int, expected: int
) -> None:
    content = bytearray(actual)
    HEADER.pack_into(content, 0, MAGIC, VERSION, EARLIER.size, 0, *EARLIER, 0, 0)
    path.write_bytes(content)
    assert region_size(path) == (actual, expected)


def test_a_region_is_only_ever_shrunk(path: Path) -> None:
    os.truncate(path, 1 << 40)
    shrink_region(path, SIZE)
    shrink_region(path, SIZE + 5)
    assert path.read_bytes() == empty()
