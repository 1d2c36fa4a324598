"""What the agent of one node needs of the driver."""

from collections.abc import Mapping
from typing import Protocol

from gpushare.model.readings import ProcessReading
from gpushare.ports import InventoryDriver


class ProcessDriver(Protocol):
    """The driver, for compute shares: the processes on GPUs. Raises GpuError like ``InventoryDriver``."""

    async def processes(self) -> Mapping[str, tuple[ProcessReading, ...]]:
        """Processes by GPU UUID, for the GPUs that list them."""


class AgentDriver(InventoryDriver, ProcessDriver, Protocol):
    """The driver, for the agent of one node."""
