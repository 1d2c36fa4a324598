"""The programs on a node of a soak that has its own kernel, and the connections to it.

What belongs here: the agent, its connection to the API server, and the observer. What does not: the other
nodes and the order of the start (``tests.soak.cluster``).
"""

import asyncio
import json
import socket
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from devkit.ports import LOOPBACK
from devkit.waiting import meanwhile
from gpushare import contract
from testbed import until
from testbed.daemons.agent import NAME, agent_argv
from testbed.kubelets import forward
from testbed.kubelets.programs import CONTAINERD, KUBELET
from testbed.nvml import NvmlStub
from testbed.uml import UmlNode
from tests.soak import observer
from tests.soak.nodes import Node
from tests.soak.units import keep
from tests.support.fixtures.agents import Link
from tests.support.fixtures.uml_nodes import NVML, UmlGpuNode, env_of

CLOCK = Path("/srv/clock.offset")
"""The offset of the agent's clock, a file of the node: it sees no change of one of this machine."""
_OBSERVER = "observer"
_OBSERVER_PORT = 12400
_FORWARDED_PORT = 12401
_ANSWER_S = 10.0
_READY_S = 60.0


async def connect(stack: AsyncExitStack, link: Link, machine: UmlNode) -> Path:
    """Let the node reach a link at the address of this machine; return the kubeconfig of its agent."""
    port, host = link.proxy.port, machine.host_address
    # The address goes with the power of the node, and comes back with it; the socket stays.
    listener = socket.create_server((host, port))
    await stack.enter_async_context(meanwhile(forward.serve([listener], LOOPBACK, port)))
    text = link.proxy.kubeconfig(machine.bed.folder).read_text()
    path = machine.bed.folder / f"{machine.name}.kubeconfig"
    path.write_text(text.replace(LOOPBACK, host))
    return path


async def start_agent(machine: UmlNode, stub: NvmlStub, kubeconfig: Path, env: dict[str, str]) -> UmlGpuNode:
    """Start the agent, and return when it is ready; systemd starts it and the kubelet again from now on."""
    await machine.copy(stub.folder, NVML)
    argv = agent_argv(machine.bed, [f"--kubeconfig={kubeconfig}"])
    agent = await machine.spawn(NAME, argv, env={**env_of(machine.name, stub), **env})
    await keep(machine, (NAME, KUBELET, CONTAINERD))
    found = UmlGpuNode(machine.bed, machine, stub, agent)
    await found.until_ready()
    return found


async def observe(stack: AsyncExitStack, machine: UmlNode, stub: NvmlStub) -> Node:
    """Start the observer, and return when it answers."""
    ports = [str(_OBSERVER_PORT), str(_FORWARDED_PORT)]
    script = [sys.executable, "-I", "-S", observer.__file__]
    await machine.spawn(_OBSERVER, [*script, machine.address, *ports, contract.POD_RESOURCES_SOCKET])
    await keep(machine, [_OBSERVER])

    async def look() -> list[dict[str, Any]]:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_connection(machine.address, _OBSERVER_PORT)
            try:
                found: list[dict[str, Any]] = json.loads(await reader.read())
            finally:
                writer.close()
        return found

    async def answers() -> bool:
        try:
            await look()
        except OSError:
            return False
        return True

    await until(answers, f"the observer of {machine.name}", _READY_S)
    return Node(machine.bed, machine, stub, await _resources(stack, machine), look, machine.read)


async def _resources(stack: AsyncExitStack, machine: UmlNode) -> Path:
    """Return a unix socket of this machine that leads to PodResources of the node."""
    # A socket's path has 107 characters at most.
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-"))
    path = Path(folder) / "pod-resources.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    await stack.enter_async_context(meanwhile(forward.serve([listener], machine.address, _FORWARDED_PORT)))
    return path
