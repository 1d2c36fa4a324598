"""Choices that flags, settings of a deployment and labels share, in the words in which users write them."""

from enum import StrEnum


class MemoryUnit(StrEnum):
    """What one unit of ``aliyun.com/gpu-mem`` is."""

    GIB = "GiB"
    MIB = "MiB"


class DeviceListStrategy(StrEnum):
    """How a container is given its GPUs."""

    MOUNTS = "volume-mounts"
    CDI = "cdi"
    ENV = "envvar"


class Placement(StrEnum):
    """Which GPU of a node a pod gets: the fullest one with room, or the emptiest one."""

    BINPACK = "binpack"
    SPREAD = "spread"
