"""Choices that flags, deployment settings and labels share; the values are those that users write."""

from enum import StrEnum


class MemoryUnit(StrEnum):
    """Size of one unit of ``aliyun.com/gpu-mem``."""

    GIB = "GiB"
    MIB = "MiB"


class DeviceListStrategy(StrEnum):
    """How the container runtime receives the GPUs of a container."""

    MOUNTS = "volume-mounts"
    CDI = "cdi"
    ENV = "envvar"
