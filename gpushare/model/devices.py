"""Devices of the kubelet: the IDs that device plugins define, and the devices of containers.

The ID of a unit is ``<UUID>-_-<n>``, as in the Aliyun plugin, or ``<index>-<n>`` if a list of such IDs is too
long. NVIDIA's plugin uses the UUID of a whole GPU, followed by ``::<n>`` if the GPU is time-sliced, and the
UUID of a MIG device (``MIG-…``).
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
    """The devices of one resource that are allocated to one container."""

    namespace: str
    pod: str
    container: str
    resource: str
    ids: frozenset[str]


def long_id(card: Card, number: int) -> str:
    """``<UUID>-_-<n>``, as in the Aliyun plugin."""
    return f"{card.uuid}{_LONG}{number}"


def short_id(card: Card, number: int) -> str:
    """``<index>-<n>``."""
    return f"{card.index}{_SHORT}{number}"


def gpu_of_unit(identifier: str) -> str:
    """The UUID or the index of the GPU in the ID of a unit, in either format."""
    uuid, mark, _ = identifier.rpartition(_LONG)
    return uuid if mark else identifier.partition(_SHORT)[0]


def unit_number(identifier: str) -> int:
    """The number in the ID of a unit; 0 if it has none."""
    return parse_small(identifier.rpartition(_SHORT)[2]) or 0


def uuid_of_gpu(identifier: str) -> str:
    """The UUID in a device ID of NVIDIA's plugin."""
    return identifier.partition(_REPLICA)[0]


def is_gpu_uuid(name: str) -> bool:
    """Whether this is the UUID of a GPU."""
    return _UUID.fullmatch(name) is not None


def is_whole_gpu_resource(resource: str) -> bool:
    """Whether NVIDIA's plugin allocates whole GPUs or MIG devices of this resource."""
    named = (RESOURCE_WHOLE_GPU, RESOURCE_TIME_SLICED_GPU)
    return resource in named or resource.startswith(RESOURCE_MIG_PREFIX)
