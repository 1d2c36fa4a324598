"""The time of day of the processes of a soak, on both kinds of nodes.

What belongs here: moving it. What does not: the library that the processes load
(``tests.support.fixtures.clocks``).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from testbed.uml import UmlNode
from tests.support.fixtures.clocks import WallClock


class Clock(Protocol):
    """The time of day of the processes with ``env``."""

    @property
    def env(self) -> dict[str, str]: ...

    async def set(self, hours: int) -> None:
        """Move the clock to so many hours after the real time, or before."""
        ...


@dataclass(frozen=True)
class HostClock:
    """That of processes which see the files of this machine."""

    clock: WallClock

    @property
    def env(self) -> dict[str, str]:
        """Environment of a process with this clock."""
        return self.clock.env

    async def set(self, hours: int) -> None:
        """Move the clock to so many hours after the real time, or before."""
        self.clock.set(hours)


@dataclass(frozen=True)
class OwnKernelClock:
    """That of processes on a node with its own kernel, which sees no change of a file of this machine."""

    library: Path
    machine: UmlNode
    offset: str

    @property
    def env(self) -> dict[str, str]:
        """Environment of a process with this clock."""
        return WallClock(self.library, Path(self.offset)).env

    async def set(self, hours: int) -> None:
        """Move the clock to so many hours after the real time, or before."""
        await self.machine.write({self.offset: str(hours * 3600)})
