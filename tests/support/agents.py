"""Agents in odd places: with a way of their own to the API server, and before a fake kubelet.

What belongs here: putting an agent where a fault can be made that a plain node does not allow.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from aiohttp import web

from gpushare import contract
from gpushare.adapters.kubelet.api import deviceplugin_pb2 as api
from gpushare.adapters.kubelet.api.deviceplugin_pb2_grpc import DevicePluginStub
from testbed import Bed, kubelets
from testbed.daemons.agent import ACCOUNT, NAME, GpuNode, add_gpu_node, agent_argv, agent_env
from testbed.kubelets import KubeletNode, KubeletSpec
from testbed.nvml import Card, NvmlStub
from testbed.system.ports import LOOPBACK, free_ports
from testbed.system.process import Process
from tests.support.faultproxy import FaultProxy, fault_proxy
from tests.support.gpunodes import SHARING, until_registered
from tests.support.kubelet import FakeKubelet, fake_kubelet


@dataclass
class Link:
    """The agent's way to the API server. Cutting it leaves the kubelet's alone."""

    proxy: FaultProxy
    _whole: asyncio.Event = field(default_factory=asyncio.Event)

    def cut(self) -> None:
        """Watches break, and what is asked from here on waits until ``mend``."""
        self._whole.clear()
        self.proxy.faults.append(self._hold)
        self.proxy.drop_streams()

    def mend(self) -> None:
        """Whoever still waits is answered."""
        self.proxy.faults.clear()
        self._whole.set()

    async def _hold(self, request: web.Request) -> web.StreamResponse | None:
        await self._whole.wait()
        given_up = request.transport is None or request.transport.is_closing()
        return web.Response() if given_up else None


@asynccontextmanager
async def linked(bed: Bed) -> AsyncIterator[Link]:
    """A way to the API server, with the rights of the agent's account."""
    async with fault_proxy(bed.api_url, bed.credentials.context(ACCOUNT)) as proxy:
        yield Link(proxy)


async def add_linked_node(
    bed: Bed, link: Link, spec: KubeletSpec, cards: Sequence[Card], flags: Sequence[str] = ()
) -> GpuNode:
    """As ``add_gpu_node``, with an agent that talks to the API server over the link."""
    kubeconfig = f"--kubeconfig={link.proxy.kubeconfig(bed.folder)}"
    node = await add_gpu_node(bed, spec, cards, flags=(*flags, kubeconfig), ready=False)
    await lay(link, node.kubelet)
    await until_registered(node)
    return node


async def lay(link: Link, node: KubeletNode) -> None:
    """Make the link reachable in the node, until its next reboot."""
    name = f"{node.name}.link"
    if name in node.bed.processes:
        await node.bed.stop(name)
    script = Path(kubelets.__file__).with_name("forward.py")
    holder = node.process("node").command.pid_file
    argv = [sys.executable, "-I", "-S", str(script), str(holder), str(link.proxy.port), LOOPBACK]
    await node.bed.spawn(name, argv)


async def start_kubelet(node: GpuNode) -> None:
    """Start the kubelet, which hears of its pods once it knows the cards; the agent has a link.

    Left alone it may admit pods before any device plugin is back, and fail them.
    """
    await node.kubelet.pause("api")
    starting = asyncio.create_task(node.kubelet.start("kubelet"))
    await until_registered(node)
    await node.kubelet.resume("api")
    await starting


async def prefers(node: GpuNode, card: int, units: int) -> bool:
    """Whether the agent would serve the next call for so many units from that card.

    Offered one unit more of the other cards, it does so only for a pod of which it knows that it
    belongs there.
    """
    uuids = [each.uuid for each in node.stub.description.cards]
    offered = [f"{u}-_-{n}" for u in uuids for n in range(units if u == uuids[card] else units + 1)]
    request = api.ContainerPreferredAllocationRequest(available_deviceIDs=offered, allocation_size=units)
    socket = node.kubelet.path(f"{contract.DEVICE_PLUGIN_FOLDER}/{contract.MEM_SOCKET}")
    options = (("grpc.default_authority", "localhost"),)
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
        answer = await DevicePluginStub(channel).GetPreferredAllocation(
            api.PreferredAllocationRequest(container_requests=[request])
        )
    return all(each.startswith(uuids[card]) for each in answer.container_responses[0].deviceIDs)


# --- an agent before a fake kubelet -------------------------------------------------------------


@dataclass
class FakeNode:
    """A node that is nothing but an object, and an agent of ours before a FAKE kubelet."""

    kubelet: FakeKubelet
    agent: Process
    ops_url: str


@asynccontextmanager
async def fake_node(
    bed: Bed, name: str, cards: Sequence[Card], *, refuse: str | None = None
) -> AsyncIterator[FakeNode]:
    """For what a real kubelet cannot be forced into; see ``tests.support.kubelet``.

    ``refuse`` is what it answers to registrations at first.
    """
    await bed.api.create("/api/v1/nodes", {"metadata": {"name": name, "labels": SHARING}})
    stub = NvmlStub(bed.folder / f"nvml-{name}", cards=cards)
    port = free_ports(1)[0]
    # A socket's path has 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="gpushare-") as folder:
        argv = [*agent_argv(bed), f"--ops-port={port}", f"--device-plugin-folder={folder}"]
        async with fake_kubelet(Path(folder)) as kubelet:
            kubelet.refuse = refuse
            agent = await bed.spawn(f"{name}.{NAME}", argv, env=agent_env(name, stub))
            yield FakeNode(kubelet, agent, f"http://127.0.0.1:{port}")
            await agent.stop()
    await bed.delete_node(name)
