"""The nodes of a soak that have a kubelet: their containers, and the records of their agent and kubelet.

What belongs here: reading them in the same way on both kinds of nodes. What does not: starting them
(``tests.soak.cluster``), and comparing what they have (``tests.soak.records``).
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpushare import contract
from gpushare.adapters.kubelet.podresources import PodResources
from gpushare.model.devices import ContainerDevices
from testbed import Bed
from testbed.kubelets import KubeletNode
from testbed.nvml import NvmlStub
from testbed.uml import UmlNode
from tests.soak import observer


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


@dataclass(frozen=True)
class Node:
    """A node with a kubelet and an agent. Its methods raise OSError or DevkitError if it does not answer.

    ``resources`` leads to PodResources of the kubelet, ``look`` returns what ``observer`` finds on the node,
    and ``read`` the content of a file.
    """

    bed: Bed
    machine: KubeletNode | UmlNode
    stub: NvmlStub
    resources: Path
    look: Callable[[], Awaitable[Sequence[Mapping[str, Any]]]]
    read: Callable[[str], Awaitable[bytes]]

    @property
    def name(self) -> str:
        """The node's name."""
        return self.machine.name

    async def containers(self) -> list[Container]:
        """Return the running containers with GPU memory."""
        return list(with_units(await self.look()))

    async def devices(self) -> Collection[ContainerDevices]:
        """Return what PodResources of the kubelet reports."""
        return await PodResources(self.resources).list()

    async def send(self, number: signal.Signals, pids: Sequence[int]) -> None:
        """Send a signal to processes of the node, by their PIDs on it."""
        await self.machine.run_text(["/bin/kill", f"-{number.value}", *map(str, pids)])


def host_node(bed: Bed, kubelet: KubeletNode, stub: NvmlStub) -> Node:
    """Return a node on the kernel of this machine, which sees its files."""
    return Node(
        bed,
        kubelet,
        stub,
        resources=kubelet.path(contract.POD_RESOURCES_SOCKET),
        look=lambda: asyncio.to_thread(observer.containers, kubelet.root),
        read=lambda path: asyncio.to_thread(kubelet.path(path).read_bytes),
    )


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
