import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpushare.deviceplugin.core.allocations import Allocation, Allocations, Enforcement
from gpushare.deviceplugin.node.record import AllocationRecord
from gpushare.errors import ConfigError

ALLOCATIONS = (
    Allocation("uid-a", "main", "default/a", (("GPU-0", 4),), "GPU-0-_-0", at_ns=7, confirmed=True),
    Allocation("uid-b", "init", "default/b", (("GPU-0", 2), ("GPU-1", 2)), "GPU-1-_-3", 30, diverged=True),
    Allocation(
        "uid-c",
        "main",
        "default/c",
        (("GPU-0", 1),),
        "x",
        enforcement=Enforcement("place", "version", "limit\n"),
    ),
)


def keyed(*allocations: Allocation) -> Allocations:
    return Allocations("node-a", by_container={allocation.key: allocation for allocation in allocations})


def record(folder: Path) -> AllocationRecord:
    return AllocationRecord(folder, "GiB")


async def test_written_values_are_read(tmp_path: Path) -> None:
    await record(tmp_path / "deep" / "state").write(lambda: keyed(*ALLOCATIONS))
    again = record(tmp_path / "deep" / "state")
    assert again.read() == ALLOCATIONS
    assert again.previous_unit == "GiB"


async def test_sizes_of_contexts_are_read_again(tmp_path: Path) -> None:
    found, node = record(tmp_path), keyed(*ALLOCATIONS)
    await found.write(lambda: node)
    await found.write(lambda: replace(node, context_mib={"GPU-0": 518}))
    again = record(tmp_path)
    assert again.context_mib == {}
    assert again.read() == ALLOCATIONS
    assert again.context_mib == {"GPU-0": 518}


async def test_the_format_has_these_keys(tmp_path: Path) -> None:
    """A running node has such a file: another name for a field needs another version."""
    await record(tmp_path).write(lambda: keyed(ALLOCATIONS[-1]))
    assert json.loads((tmp_path / "allocations.json").read_text()) == {
        "version": 1,
        "unit": "GiB",
        "allocations": [
            {
                "uid": "uid-c",
                "container": "main",
                "pod": "default/c",
                "cards": [["GPU-0", 1]],
                "first_device_id": "x",
                "core": 0,
                "total": 0,
                "at_ns": 0,
                "confirmed": False,
                "diverged": False,
                "enforcement": {
                    "directory": "place",
                    "library": "version",
                    "limit": "limit\n",
                    "launches": False,
                },
            }
        ],
        "context_mib": {},
    }


def test_without_a_file_there_are_no_allocations(tmp_path: Path) -> None:
    found = record(tmp_path)
    assert found.read() == ()
    assert found.previous_unit is None


async def test_only_its_owner_can_read_the_directory(tmp_path: Path) -> None:
    await record(tmp_path / "state").write(lambda: keyed(*ALLOCATIONS))
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


async def test_the_written_state_is_that_at_the_time_of_the_write(tmp_path: Path) -> None:
    found, now = record(tmp_path), [keyed(ALLOCATIONS[0])]
    first = asyncio.ensure_future(found.write(lambda: now[0]))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(found.write(lambda: now[0]))
    now[0] = keyed(*ALLOCATIONS)
    await asyncio.gather(first, second)
    assert record(tmp_path).read() == ALLOCATIONS


async def test_nothing_is_written_twice(tmp_path: Path) -> None:
    found, allocations = record(tmp_path), keyed(*ALLOCATIONS)
    await found.write(lambda: allocations)
    (tmp_path / "allocations.json").unlink()
    await found.write(lambda: allocations)
    assert not (tmp_path / "allocations.json").exists()


async def test_a_write_with_a_cancelled_caller_does_not_overlap_the_next_one(tmp_path: Path) -> None:
    found = record(tmp_path)
    for round_ in range(20):
        lost = asyncio.ensure_future(found.write(lambda: keyed(ALLOCATIONS[0])))
        await asyncio.sleep(0)
        lost.cancel()
        await found.write(lambda: keyed(*ALLOCATIONS))
        assert record(tmp_path).read() == ALLOCATIONS, round_
        await asyncio.gather(lost, return_exceptions=True)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"version":1,"unit":"GiB","allocations":[{}]}', '{"version":1,"allocations":[', "\xff"],
)
def test_a_file_that_cannot_be_understood_is_put_aside_and_not_lost(tmp_path: Path, text: str) -> None:
    (tmp_path / "allocations.json").write_text(text)
    assert record(tmp_path).read() == ()
    assert (tmp_path / "allocations.unreadable").read_text() == text


def test_a_file_that_is_no_text_is_put_aside_too(tmp_path: Path) -> None:
    content = b'{"version":1,"unit":"\xff","allocations":[]}'
    (tmp_path / "allocations.json").write_bytes(content)
    assert record(tmp_path).read() == ()
    assert (tmp_path / "allocations.unreadable").read_bytes() == content


def test_a_file_of_a_later_version_is_put_aside_too(tmp_path: Path) -> None:
    (tmp_path / "allocations.json").write_text('{"version":2,"unit":"GiB","allocations":[]}')
    assert record(tmp_path).read() == ()
    assert (tmp_path / "allocations.unreadable").exists()


async def test_the_error_for_a_directory_that_cannot_be_created_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file/state"):
        await record(tmp_path / "file" / "state").write(lambda: keyed(*ALLOCATIONS))
