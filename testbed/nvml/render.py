"""The state file that the C library reads, and the names of the GPUs in sysfs.

What belongs here: pure functions from a description to text. What does not: writing it (``stub``).
``native/state.c`` reads the format.
"""

import uuid
from collections.abc import Iterator
from typing import Final

import msgspec

from testbed.nvml.description import Description, Failure, GpuProcess, NvmlEvent, NvmlGpu
from testbed.nvml.eras import ERAS, Era

_SPACE: Final = uuid.UUID("1c4b1a53-94a5-4a4b-9a0f-1f6f1f1a7c55")
_LEVELS: Final = {"internal": 0, "single": 10, "multiple": 20, "hostbridge": 30, "node": 40, "system": 50}
_KINDS: Final = {"compute": 0, "graphics": 1, "mps": 2}
_XID: Final = 0x8
_RECOVERY_ACTION: Final = 0x8000
_SWITCHES: Final = 6
_GPU_END, _SWITCH_END = 0, 2
_EXCLUDED: Final = frozenset({"numa", "used_mib", "processes", "switch_links"})


def completed(card: NvmlGpu, position: int, seed: str) -> NvmlGpu:
    """Return the GPU with values for its empty fields; equal seeds and positions give equal values."""
    return msgspec.structs.replace(
        card,
        uuid=card.uuid or f"GPU-{uuid.uuid5(_SPACE, f'{seed}/{position}')}",
        pci=card.pci or f"00000000:{position + 4:02X}:00.0",
        serial=card.serial or f"{1_320_000_000 + position}",
        minor=position if card.minor is None else card.minor,
    )


def sysfs_name(card: NvmlGpu) -> str:
    """Return the folder of a GPU in ``/sys/bus/pci/devices``: domain of four digits, lower case."""
    return card.pci[4:].lower()


def state(description: Description) -> str:
    """Return the state file of a description; its GPUs must be completed."""
    return "".join(f"{line}\n" for line in _lines(description))


def _lines(description: Description) -> Iterator[str]:
    era = ERAS[description.era]
    yield f"driver {description.driver or era.driver}"
    yield f"loaded {int(description.loaded)}"
    yield f"nvml {era.nvml}"
    yield f"cuda {era.cuda}"
    yield f"v1_counts_reserve {int(era.v1_counts_reserve)}"
    yield f"recovery_action_known {int(era.has_recovery_action)}"
    yield f"hang {int(description.hang)}"
    for failure in description.failures:
        yield _failure(failure, description)
    for event in description.events:
        if event.xid is not None or era.has_recovery_action:
            yield _event(event)
    for position in range(len(description.cards)):
        yield from _card(description, position)


def _failure(failure: Failure, description: Description) -> str:
    uuid_ = "-" if failure.card is None else description.cards[failure.card].uuid
    # All variants of nvmlInit are one function in the library.
    function = "nvmlInit" if failure.function.startswith("nvmlInit") else failure.function
    return f"fail {function} {failure.code} {uuid_}"


def _event(event: NvmlEvent) -> str:
    # Only an XID event has data.
    kind, data = (_RECOVERY_ACTION, 0) if event.xid is None else (_XID, event.xid)
    return f"event {event.number} {event.uuid or '-'} {kind} {data}"


def _of_era(card: NvmlGpu, era: Era) -> NvmlGpu:
    """The GPU without what the driver of the era does not know."""
    if era.has_recovery_action:
        return card
    events = None if card.events is None else card.events & ~_RECOVERY_ACTION
    return msgspec.structs.replace(card, recovery_action=None, events=events)


def _card(description: Description, position: int) -> Iterator[str]:
    card = _of_era(description.cards[position], ERAS[description.era])
    yield f"card {position}"
    for name in NvmlGpu.__struct_fields__:
        value = getattr(card, name)
        if name not in _EXCLUDED and value is not None:
            yield f"{name} {int(value) if isinstance(value, bool) else value}"
    yield f"used_mib {card.used}"
    yield from map(_process, card.processes)
    yield from _links(description, position)
    for other in range(len(description.cards)):
        yield f"level {other} {_level(description, position, other)}"


def _process(process: GpuProcess) -> str:
    loads = f"{process.sm} {process.memory} {process.encoder} {process.decoder}"
    return f"process {process.pid} {process.used_mib} {loads} {_KINDS[process.kind]}"


def _links(description: Description, position: int) -> Iterator[str]:
    for pair in description.pairs:
        if position in pair.cards:
            (other,) = set(pair.cards) - {position}
            yield from [f"link {description.cards[other].pci} {_GPU_END}"] * pair.nvlinks
    for link in range(description.cards[position].switch_links):
        yield f"link 00000000:{0xC0 + link % _SWITCHES:02X}:00.0 {_SWITCH_END}"


def _level(description: Description, position: int, other: int) -> int:
    for pair in description.pairs:
        if {position, other} == set(pair.cards):
            return _LEVELS[pair.level]
    here, there = description.cards[position], description.cards[other]
    return _LEVELS["internal" if position == other else "node" if here.numa == there.numa else "system"]
