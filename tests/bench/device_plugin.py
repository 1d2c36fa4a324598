"""``make bench PART=device-plugin``: the cost of the node agent, with a real API server and a stub of NVML.

The kubelet is a fake with real gRPC on real sockets: only the agent is measured; a real kubelet adds its
time. Allocate is measured with 100 GPU pods on the node; the baseline in the same run is an empty call
(GetDevicePluginOptions) over the same socket.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from devkit.ports import free_ports
from devkit.process import Process
from gpushare import contract
from gpushare.adapters.kubelet.api.deviceplugin_pb2 import Empty
from gpushare.deviceplugin.core.device_ids import devices_of
from gpushare.deviceplugin.kubelet.endpoint import listing
from gpushare.model.annotations import bind_annotations, even_shares
from gpushare.model.cards import Card
from gpushare.model.demand import ContainerDemand, ContainerKind, Demand, demand_of
from gpushare.model.devices import long_id, short_id
from testbed import Bed, SchedulerSpec, Testbed, gpu_pod, until
from testbed.control_plane.api import Object
from testbed.daemons.agent import ACCOUNT, agent_env, grant_agent
from testbed.nvml import NvmlStub, card
from tests.bench.measuring import cpu_s, ms, percentiles, rss_mib
from tests.support.fakes.kubelet import Allocation, FakeKubelet, fake_kubelet
from tests.support.machine import machine
from tests.support.metrics import samples

NODE = "bench"
RESIDENTS = 100
CALLS = 200
IDLE_S = 20.0
H200 = 8 * [card("H200")]


@click.command()
def main() -> None:
    """Print the results as Markdown."""
    click.echo(machine())
    lists()
    asyncio.run(served())


def lists() -> None:
    """The message of ListAndWatch, built and serialised."""
    click.echo("\n| devices | IDs | size | time, median of 20 |\n|---|---|---|---|")
    for units, namer, name in ((141, long_id, "long"), (16_276, short_id, "short")):
        cards = [Card(i, units, f"GPU-{i:08d}-0000-0000-0000-000000000000", numa=i // 4) for i in range(8)]
        took = []
        for _ in range(20):
            begun = time.perf_counter()
            size = listing(devices_of(cards, namer, lambda each: each.units)).ByteSize()
            took.append(time.perf_counter() - begun)
        click.echo(f"| {8 * units:,} | {name} | {size:,} bytes | {ms(statistics.median(took))} |")


async def served() -> None:
    """Start, Allocate with a full node, memory, and the usage of an idle agent."""
    async with Testbed(scheduler=SchedulerSpec(None), kwok=False) as bed:
        await grant_agent(bed)
        await bed.api.create("/api/v1/nodes", {"metadata": {"name": NODE, "labels": {"gpushare": "true"}}})
        with TemporaryDirectory() as folder:
            async with fake_kubelet(Path(folder)) as kubelet, agent(bed, kubelet) as (process, ops_url):
                await _serve(bed, kubelet, [_pod(i) for i in range(RESIDENTS)])
                newcomers = [_pod(RESIDENTS + i) for i in range(CALLS)]
                before = await _writes(ops_url)
                took = await _serve(bed, kubelet, newcomers, leave=True)
                calls = (await _writes(ops_url) - before) / len(took)
                empty = [await _empty(kubelet) for _ in range(CALLS)]
                click.echo(f"GetDevicePluginOptions, the baseline: {percentiles(empty)}")
                what = f"GetPreferredAllocation + Allocate, {RESIDENTS} pods on the node"
                click.echo(f"{what}: {percentiles(took)}")
                click.echo(f"\nWrites to the API per pod that was served: {calls:.2f}")
                rss = rss_mib(process.pid)
                busy = cpu_s(process.pid)
                await asyncio.sleep(IDLE_S)
                idle = (cpu_s(process.pid) - busy) / IDLE_S
                click.echo(f"Resident: {rss:.0f} MiB. Idle: {100 * idle:.2f} % of a core over {IDLE_S:g} s.")


@asynccontextmanager
async def agent(bed: Bed, kubelet: FakeKubelet) -> AsyncIterator[tuple[Process, str]]:
    """The agent over eight H200; prints how long it takes until the kubelet knows its devices."""
    stub = NvmlStub(bed.folder / "nvml", cards=H200)
    port = free_ports(1)[0]
    argv = [
        str(Path(sys.executable).with_name("gpushare-device-plugin-v2")),
        f"--kubeconfig={bed.kubeconfig_for(ACCOUNT)}",
        f"--device-plugin-folder={kubelet.folder}",
        "--ops-host=127.0.0.1",
        f"--ops-port={port}",
    ]

    async def known() -> bool:
        return kubelet.allocatable(contract.RESOURCE_MEM) > 0

    begun = time.perf_counter()
    process = await bed.spawn("agent", argv, env=agent_env(NODE, stub), ready=known)
    click.echo(
        f"\nStart to {kubelet.allocatable(contract.RESOURCE_MEM)} devices known to the kubelet: ", nl=False
    )
    click.echo(ms(time.perf_counter() - begun))
    yield process, f"http://127.0.0.1:{port}"


async def _serve(bed: Bed, kubelet: FakeKubelet, pods: list[Object], *, leave: bool = False) -> list[float]:
    """Admit the pods one after the other; with ``leave`` each goes before the next comes."""
    took = []
    for pod in pods:
        (stored,) = await bed.create_pods([pod])
        uid = stored["metadata"]["uid"]
        took.append(await _admit(kubelet, uid))
        await _until_assigned(bed, stored)
        if leave:
            kubelet.forget(uid)
            await bed.api.delete(
                f"/api/v1/namespaces/default/pods/{stored['metadata']['name']}?gracePeriodSeconds=0"
            )
    return took


async def _admit(kubelet: FakeKubelet, uid: str) -> float:
    """Admit a pod; returns the seconds that the agent's two answers took."""
    free = kubelet.healthy(contract.RESOURCE_MEM) - kubelet.allocated(contract.RESOURCE_MEM)
    begun = time.perf_counter()
    ids = await kubelet.prefer(contract.RESOURCE_MEM, free, (), 4)
    answer = await kubelet.allocate(contract.RESOURCE_MEM, ids)
    took = time.perf_counter() - begun
    kubelet.allocations[uid, "main", contract.RESOURCE_MEM] = Allocation(tuple(ids), answer)
    kubelet.write_checkpoint()
    return took


async def _until_assigned(bed: Bed, pod: Object) -> None:
    path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}"

    async def reported() -> bool:
        found = await bed.api.get(path)
        return bool(found["metadata"].get("annotations", {}).get(contract.ANN_ASSIGNED) == "true")

    await until(reported, f"{path} to be marked as assigned", 10, 0.01)


async def _empty(kubelet: FakeKubelet) -> float:
    begun = time.perf_counter()
    await kubelet.clients[contract.RESOURCE_MEM].stub.GetDevicePluginOptions(Empty())
    return time.perf_counter() - begun


def _pod(number: int) -> Object:
    """A pod as the extender leaves it: bound, its GPU in its annotations."""
    demand = demand_of([ContainerDemand("main", ContainerKind.MAIN, 4)])
    assert isinstance(demand, Demand)
    annotations = bind_annotations(demand, even_shares(demand, (number % len(H200),)), 139, number)
    return gpu_pod(
        f"pod-{number}", 4, annotations={**annotations, contract.ANN_SEAL: "sealed"}, nodeName=NODE
    )


async def _writes(ops_url: str) -> float:
    found = await samples(ops_url, "gpushare_device_plugin_api_writes_total")
    return sum(each.value for each in found if each.labels["kind"] != "events")


if __name__ == "__main__":
    main()
