"""The cluster of a soak: a control plane, two extenders, nodes with kubelets and agents, simulated nodes.

What belongs here: starting the whole stack so that each part can be faulted alone. What does not: the faults,
and the programs of a node with its own kernel (``tests.soak.own_kernel``).
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from devkit.ports import LOOPBACK
from devkit.waiting import together
from gpushare.contract import EXTENDER_PREFIX
from testbed import Bed, Process, SchedulerSpec, SimGpu, SimNode, Testbed, until
from testbed.daemons import agent, extender
from testbed.daemons.agent import GpuNode, add_card_node, agent_argv, agent_env, grant_agent
from testbed.daemons.extender import ExtenderSpec, component_config, grant
from testbed.kubelets import KubeletSpec
from testbed.nvml import NvmlStub, card
from testbed.uml import UmlNode, add_uml_node
from tests.soak import own_kernel
from tests.soak.actions import (
    AGENTS,
    EXTENDERS,
    HOST_KERNEL,
    OWN_KERNEL,
    PROCESSES,
    REAL,
    SIMULATED,
    SIZE,
    UNITS,
)
from tests.soak.nodes import Node, host_node
from tests.support.fakes.fault_proxy import fault_proxy
from tests.support.fakes.service import FakeService, fake_service
from tests.support.fixtures.agents import Link, connect
from tests.support.fixtures.clocks import WallClock, wall_clock
from tests.support.fixtures.extenders import QUICK, leads
from tests.support.fixtures.gpu_nodes import SHARING, until_allocatable, until_registered
from tests.support.history import Recorder

_API_REQUEST_TIMEOUT_S: Final = 15
"""Longer than a proxy that delays or holds a bind and a frozen API server together can make it late."""
_READY_S: Final = 120.0
_FLAGS: Final = (*QUICK, f"--api-request-timeout={_API_REQUEST_TIMEOUT_S}")


@dataclass
class Cluster:
    """A running cluster. ``links`` and ``clocks`` have the names of their processes."""

    bed: Bed
    recorder: Recorder
    extenders: dict[str, ExtenderSpec] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    machines: dict[str, UmlNode] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    clocks: dict[str, WallClock] = field(default_factory=dict)

    @property
    def processes(self) -> dict[str, Process]:
        """The processes on this machine that a schedule may stop, by name."""
        return {name: self.bed.process(name) for name in PROCESSES if name not in UNITS}

    async def set_clock(self, name: str, hours: int) -> None:
        """Move the time of day of a process to so many hours after the real time, or before."""
        clock, machine = self.clocks[name], self.machines.get(name.partition(".")[0])
        if machine:
            await machine.write({str(clock.offset): str(hours * 3600)})
        else:
            clock.set(hours)


def sim_node(name: str) -> SimNode:
    """Return the description of a simulated node."""
    return SimNode(name, [SimGpu(units=SIZE)] * SIMULATED[name])


@asynccontextmanager
async def soak_cluster(name: str | None = None) -> AsyncIterator[Cluster]:
    """A cluster in which every part works, without pods. The logs of one with a name stay."""
    specs = {each: ExtenderSpec(each, flags=_FLAGS) for each in EXTENDERS}
    beds: list[Bed] = []

    def ready() -> list[int]:
        return [each.port for bed in beds for each in specs.values() if _runs(bed, each.name)]

    async with AsyncExitStack() as stack:
        service: FakeService = await stack.enter_async_context(fake_service(ready))
        url = f"http://{LOOPBACK}:{service.port}{EXTENDER_PREFIX}"
        scheduler = SchedulerSpec(extenders=[component_config(url)])
        bed = await stack.enter_async_context(Testbed(name, scheduler=scheduler))
        beds.append(bed)
        await grant(bed)
        await grant_agent(bed)
        cluster = Cluster(bed, Recorder(bed.api), specs)
        clock = await wall_clock(bed.folder)
        for each in (*EXTENDERS, *AGENTS):
            account = extender.ACCOUNT if each in specs else agent.ACCOUNT
            cluster.links[each] = await _link(stack, bed, bed.credentials.context(account))
            offset = own_kernel.CLOCK if each in UNITS else bed.folder / f"{each}.offset"
            cluster.clocks[each] = replace(clock, offset=offset)
        await _start(cluster, stack)
        await stack.enter_async_context(cluster.recorder)
        yield cluster


def _runs(bed: Bed, name: str) -> bool:
    return name in bed.processes and bed.process(name).running


async def _link(stack: AsyncExitStack, bed: Bed, context: ssl.SSLContext) -> Link:
    return Link(await stack.enter_async_context(fault_proxy(bed.api_url, context)))


async def _start(cluster: Cluster, stack: AsyncExitStack) -> None:
    replicas = [_extender(cluster, name) for name in cluster.extenders]
    nodes = [_host_node(cluster, name) for name in HOST_KERNEL]
    others = [_own_kernel_node(cluster, stack, name) for name in OWN_KERNEL]
    simulated = cluster.bed.add_nodes(sim_node(name) for name in SIMULATED)
    await together([*replicas, *nodes, *others, simulated])
    await until(lambda: _leads(cluster), "an extender to lead", _READY_S)


async def _leads(cluster: Cluster) -> bool:
    return any([await leads(each) for each in cluster.extenders.values()])


async def _extender(cluster: Cluster, name: str) -> None:
    bed, spec = cluster.bed, cluster.extenders[name]
    argv = spec.argv(cluster.links[name].proxy.kubeconfig(bed.folder))
    ready = f"{spec.ops_url}/readyz"
    await bed.spawn(name, argv, env=cluster.clocks[name].env, ready=ready, ready_s=_READY_S)


async def _host_node(cluster: Cluster, name: str) -> None:
    bed, full = cluster.bed, f"{name}.{agent.NAME}"
    found = await add_card_node(bed, KubeletSpec(name, labels=SHARING), [card("T4")] * REAL[name])
    link = cluster.links[full]
    await connect(link, found.kubelet)
    argv = agent_argv(bed, [f"--kubeconfig={link.proxy.kubeconfig(bed.folder)}"])
    env = {**agent_env(name, found.stub), **cluster.clocks[full].env}
    node = GpuNode(bed, found.kubelet, found.stub, await found.kubelet.spawn(agent.NAME, argv, env=env))
    await until_registered(node, _READY_S)
    await until_allocatable(node, SIZE * REAL[name], _READY_S)
    cluster.nodes[name] = host_node(bed, node.kubelet, node.stub)


async def _own_kernel_node(cluster: Cluster, stack: AsyncExitStack, name: str) -> None:
    bed, full = cluster.bed, f"{name}.{agent.NAME}"
    machine = await add_uml_node(bed, KubeletSpec(name, labels=SHARING))
    stub = NvmlStub(bed.folder / f"nvml-{name}", cards=[card("T4")] * REAL[name])
    kubeconfig = await own_kernel.connect(stack, cluster.links[full], machine)
    found = await own_kernel.start_agent(machine, stub, kubeconfig, cluster.clocks[full].env)
    await until_allocatable(found, SIZE * REAL[name], _READY_S)
    cluster.machines[name] = machine
    cluster.nodes[name] = await own_kernel.observe(stack, machine, stub)
