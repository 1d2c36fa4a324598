"""The isolation files of a container, written without the library: a limit and a region."""

import struct
from collections.abc import Sequence
from pathlib import Path

from gpushare.isolation import region
from gpushare.isolation.layout import LIMIT, REGION, DirectoryOwner, link_of
from gpushare.isolation.limits import CardLimit, text
from gpushare.isolation.region_layout import CARD, HEADER, LAYOUT, MAGIC, SIZE, VERSION

_NO_START = 1 << 50
"""In clock ticks since boot."""


def region_bytes(cards: Sequence[region.CardUse] = (), pids: Sequence[int] = (), crowded: int = 0) -> bytes:
    """A region with this usage of GPUs, and slots for these processes, which no machine runs.

    ``crowded`` is the number of processes without a slot.
    """
    made = bytearray(region.empty())
    HEADER.pack_into(made, 0, MAGIC, VERSION, SIZE, 0, *LAYOUT, len(pids), crowded)
    for index, use in enumerate(cards):
        numbers = (use.limit, use.used, use.peak, use.refusals, use.refused, use.needed)
        CARD.pack_into(
            made,
            LAYOUT.cards_at + index * LAYOUT.card,
            use.uuid.encode(),
            *numbers,
        )
    for slot, pid in enumerate(pids):
        struct.pack_into("<QQ", made, LAYOUT.slots_at + slot * LAYOUT.slot, pid, _NO_START)
    return bytes(made)


def write_container_directory(
    state: Path, owner: DirectoryOwner, limits: Sequence[CardLimit], content: bytes
) -> Path:
    """Write a container directory as the node agent does, with these bytes as its region."""
    named = link_of(state, owner)
    folder = state / f"{abs(hash(owner)):016x}"[:16]
    folder.mkdir(parents=True, exist_ok=True)
    if not named.is_symlink():
        named.symlink_to(folder.name)
    (folder / LIMIT).write_text(text(limits))
    (folder / REGION).write_bytes(content)
    return folder
