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


class DeviceListChoice(StrEnum):
    """A strategy, or ``auto``: the node agent decides (``gpushare.model.device_lists``)."""

    AUTO = "auto"
    MOUNTS = DeviceListStrategy.MOUNTS.value
    CDI = DeviceListStrategy.CDI.value
    ENV = DeviceListStrategy.ENV.value

    @property
    def strategy(self) -> DeviceListStrategy | None:
        """The strategy; None if the agent decides."""
        return None if self is DeviceListChoice.AUTO else DeviceListStrategy(self.value)


class ClusterPlacement(StrEnum):
    """The placement policy of pods and nodes that name none."""

    BINPACK = "binpack"
    REPLAY = "replay"


class MakeRoom(StrEnum):
    """Whether the extender evicts pods to make room. ``off`` and ``on`` would be booleans in YAML."""

    NEVER = "never"
    DRY_RUN = "dry-run"
    EVICT = "evict"
