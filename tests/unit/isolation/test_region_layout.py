"""Regions of libraries with older and newer layouts."""

import pytest

from gpushare.errors import SourceError
from gpushare.isolation.region import CardUse, Region, context_writes, empty, rate_writes, read
from gpushare.isolation.region_layout import (
    HEADER,
    LAYOUT,
    MAGIC,
    MAX_SIZE,
    SIZE,
    SLOTS,
    VERSION,
    RegionLayout,
    measure_struct,
    slot_struct,
)
from tests.support.builders.regions import region_bytes

CARDS = (CardUse("GPU-1", 7, 5, 6, 1), CardUse("GPU-2", 9, 0, 0, 0))


def read_bytes(content: bytes) -> Region:
    region = read(lambda: content)
    assert region is not None
    return region


def test_managed_memory_is_read_from_the_end_of_a_slot() -> None:
    content = bytearray(region_bytes(CARDS, [42]))
    slot_struct(16).pack_into(content, LAYOUT.slots_at, 42, 1, *[100] * 16, *[0] * 32, *range(16))
    (process,) = read_bytes(bytes(content)).processes
    assert process.managed == tuple(range(16))
    assert process.shown(15) == 85


LATER = RegionLayout(
    HEADER.size + 8,
    LAYOUT.card + 16,
    LAYOUT.launch + 8,
    slot_struct(32).size + 24,
    measure_struct(32).size + 8,
    32,
    SLOTS + 44,
)


def later() -> bytearray:
    """A region of a later layout, with more GPUs and slots, and unknown fields in each record."""
    made = bytearray(b"\xee" * LATER.size)
    HEADER.pack_into(made, 0, MAGIC, VERSION, LATER.size, 0, *LATER, 7, 3)
    for index in range(LATER.cards):
        at = LATER.cards_at + index * LATER.card
        made[at : at + LAYOUT.card] = bytes(LAYOUT.card)
        at = LATER.launches_at + index * LATER.launch
        made[at : at + LAYOUT.launch] = bytes(LAYOUT.launch)
    for index, use in enumerate(CARDS):
        start = LAYOUT.cards_at + index * LAYOUT.card
        at = LATER.cards_at + index * LATER.card
        made[at : at + LAYOUT.card] = region_bytes(CARDS)[start : start + LAYOUT.card]
        assert made[at:].startswith(use.uuid.encode())
    for slot in range(LATER.slots):
        at = LATER.slots_at + slot * LATER.slot
        pid = 42 if slot == LATER.slots - 1 else 0
        slot_struct(32).pack_into(made, at, pid, 1, *range(32), *range(32), *range(32), *range(32))
    return made


def test_a_region_of_a_later_layout_is_read_as_far_as_it_is_known() -> None:
    content = later()
    region = read_bytes(bytes(content))
    assert (region.cards, region.crowded) == (CARDS, 3)
    (process,) = region.processes
    assert (process.pid, process.slot, process.used) == (42, SLOTS + 43, tuple(range(32)))
    for at, written in rate_writes(1, 5, 6, region.layout):
        content[at : at + len(written)] = written
    for at, written in context_writes(process, [9, 10], region.layout):
        assert at + len(written) <= LATER.size
    assert read_bytes(bytes(content)).cards[1].rate == 5


def test_bytes_after_a_region_are_ignored() -> None:
    assert read_bytes(region_bytes(CARDS) + b"x" * 1000).cards == CARDS
    assert read(lambda: empty() + b"x") is None


@pytest.mark.parametrize(
    "sizes",
    [
        LAYOUT._replace(header=HEADER.size - 1),
        LAYOUT._replace(card=LAYOUT.card - 1),
        LAYOUT._replace(slot=LAYOUT.slot - 1),
        LAYOUT._replace(measure=LAYOUT.measure - 1),
        LAYOUT._replace(cards=0),
        LAYOUT._replace(cards=17),
        LAYOUT._replace(slots=0),
        LAYOUT._replace(slots=65535),
    ],
)
def test_sizes_that_cannot_be_are_an_error(sizes: RegionLayout) -> None:
    content = bytearray(MAX_SIZE)
    HEADER.pack_into(content, 0, MAGIC, VERSION, sizes.size % 2**32, 0, *sizes, 0, 0)
    with pytest.raises(SourceError, match="sizes are wrong"):
        read_bytes(bytes(content))


def test_a_size_that_is_not_that_of_the_layout_is_an_error() -> None:
    content = bytearray(region_bytes(CARDS))
    HEADER.pack_into(content, 0, MAGIC, VERSION, SIZE - 8, 0, *LAYOUT, 0, 0)
    with pytest.raises(SourceError, match="sizes are wrong"):
        read_bytes(bytes(content))


def test_another_version_is_an_error() -> None:
    content = bytearray(region_bytes(CARDS))
    HEADER.pack_into(content, 0, MAGIC, VERSION + 1, SIZE, 0, *LAYOUT, 0, 0)
    with pytest.raises(SourceError, match=f"not a region of version {VERSION}"):
        read_bytes(bytes(content))
