"""Devices as the kubelet knows them: the IDs that device plugins make up, and who holds them.

IDs of units carry the card's UUID as the original's do (``<UUID>-_-<n>``); where such a list is too long
they carry the card's index (``<index>-<n>``). NVIDIA's plugin calls a whole card by its UUID, with
``::<n>`` behind it where the card is time-sliced, and a MIG device by a UUID of its own (``MIG-…``).
"""

import re
from dataclasses import dataclass
from typing import Final

from gpushare.contract import RESOURCE_MIG_PREFIX, RESOURCE_TIME_SLICED_GPU, RESOURCE_WHOLE_GPU
from gpushare.model.cards import Card
from gpushare.model.quantity import parse_small

_LONG: Final = "-_-"
_SHORT: Final = "-"
_REPLICA: Final = "::"
_UUID: Final = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """The devices of one resource that one container holds."""

    namespace: str
    pod: str
    container: str
    resource: str
    ids: frozenset[str]


def long_id(card: Card, number: int) -> str:
    """``<UUID>-_-<n>``, as the original writes it."""
    return f"{card.uuid}{_LONG}{number}"


def short_id(card: Card, number: int) -> str:
    """``<index>-<n>``."""
    return f"{card.index}{_SHORT}{number}"


def gpu_of_unit(identifier: str) -> str:
    """What an ID of a unit, of either form, calls its card: a UUID or an index."""
    uuid, mark, _ = identifier.rpartition(_LONG)
    return uuid if mark else identifier.partition(_SHORT)[0]


def unit_number(identifier: str) -> int:
    """The number at the end of an ID of a unit; 0 where there is none."""
    return parse_small(identifier.rpartition(_SHORT)[2]) or 0


def uuid_of_gpu(identifier: str) -> str:
    """The UUID in an ID of NVIDIA's plugin."""
    return identifier.partition(_REPLICA)[0]


def is_gpu_uuid(name: str) -> bool:
    """Whether this is the UUID of some card."""
    return _UUID.fullmatch(name) is not None


def is_whole_gpu_resource(resource: str) -> bool:
    """Whether NVIDIA's plugin gives out cards or MIG devices under this name of a resource."""
    named = (RESOURCE_WHOLE_GPU, RESOURCE_TIME_SLICED_GPU)
    return resource in named or resource.startswith(RESOURCE_MIG_PREFIX)
