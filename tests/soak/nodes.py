"""The nodes of a soak that have a kubelet: their containers, and the records of their agent and kubelet.

What belongs here: reading them in the same way on both kinds of nodes. What does not: starting them
(``tests.soak.cluster``), and comparing what they have (``tests.soak.records``).
"""

import asyncio
import json
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from gpushare import contract
from gpushare.adapters.kubelet.podresources import PodResources
from gpushare.model.devices import ContainerDevices
from testbed import Bed
from testbed.daemons.agent import GpuNode
from testbed.nvml import NvmlStub
from testbed.uml import UmlNode
from tests.soak import observer

OBSERVER: Final = "observer"
OBSERVER_PORT: Final = 12400
FORWARDED_PORT: Final = 12401
_ANSWER_S: Final = 10.0


@dataclass(frozen=True)
class Container:
    """A running container with GPU memory, from its OCI spec; ``gpus`` are UUIDs."""

    uid: str
    pid: int
    units: int
    gpus: Sequence[str]
    caught: int = 0
    """The mask of the signals that its first process handles."""

    def handles(self, number: signal.Signals) -> bool:
        """Return whether a signal does not end its first process at once."""
        return bool(self.caught >> (number - 1) & 1)


class Node(Protocol):
    """A node with a kubelet and an agent. Its methods raise OSError or DevkitError if it does not answer."""

    @property
    def bed(self) -> Bed: ...

    @property
    def name(self) -> str: ...

    @property
    def stub(self) -> NvmlStub: ...

    async def containers(self) -> list[Container]:
        """Return the running containers with GPU memory."""
        ...

    async def read(self, path: str) -> bytes:
        """Return the content of a file."""
        ...

    async def devices(self) -> Collection[ContainerDevices]:
        """Return what PodResources of the kubelet reports."""
        ...

    async def send(self, number: signal.Signals, pids: Sequence[int]) -> None:
        """Send a signal to processes of the node, by their PIDs on it."""
        ...


@dataclass(frozen=True)
class HostNode:
    """A node on the kernel of this machine, which sees its files."""

    node: GpuNode

    @property
    def bed(self) -> Bed:
        """The testbed."""
        return self.node.bed

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def stub(self) -> NvmlStub:
        """The stub of its driver."""
        return self.node.stub

    async def containers(self) -> list[Container]:
        """Return the running containers with GPU memory."""
        found = await asyncio.to_thread(observer.containers, self.node.kubelet.root)
        return list(with_units(found))

    async def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return await asyncio.to_thread(self.node.kubelet.path(path).read_bytes)

    async def devices(self) -> Collection[ContainerDevices]:
        """Return what PodResources of the kubelet reports."""
        return await PodResources(self.node.kubelet.path(contract.POD_RESOURCES_SOCKET)).list()

    async def send(self, number: signal.Signals, pids: Sequence[int]) -> None:
        """Send a signal to processes of the node: it has its own PIDs."""
        await self.node.kubelet.run_text(_kill(number, pids))


@dataclass(frozen=True)
class OwnKernelNode:
    """A node with its own kernel, which runs ``observer``. ``resources`` leads to PodResources on it."""

    machine: UmlNode
    stub: NvmlStub
    resources: Path

    @property
    def bed(self) -> Bed:
        """The testbed."""
        return self.machine.bed

    @property
    def name(self) -> str:
        """The node's name."""
        return self.machine.name

    async def containers(self) -> list[Container]:
        """Return the running containers with GPU memory."""
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_connection(self.machine.address, OBSERVER_PORT)
            try:
                return list(with_units(json.loads(await reader.read())))
            finally:
                writer.close()

    async def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return await self.machine.read(path)

    async def devices(self) -> Collection[ContainerDevices]:
        """Return what PodResources of the kubelet reports."""
        return await PodResources(self.resources).list()

    async def send(self, number: signal.Signals, pids: Sequence[int]) -> None:
        """Send a signal to processes of the node."""
        await self.machine.run_text(_kill(number, pids))


def _kill(number: signal.Signals, pids: Sequence[int]) -> list[str]:
    return ["/bin/kill", f"-{number.value}", *map(str, pids)]


def with_units(found: Sequence[Mapping[str, Any]]) -> Iterator[Container]:
    """Yield the containers that have GPU memory and a live process."""
    folder = f"{contract.VISIBLE_BY_MOUNTS}/"
    for each in found:
        env = dict(entry.split("=", 1) for entry in each["env"])
        if contract.ENV_CONTAINER in env and not each["status"]["State"].startswith("Z"):
            yield Container(
                uid=each["annotations"]["io.kubernetes.cri.sandbox-uid"],
                pid=each["pid"],
                units=int(env[contract.ENV_CONTAINER]),
                gpus=[name.removeprefix(folder) for name in each["mounts"] if folder in name],
                caught=int(each["status"]["SigCgt"], 16),
            )
