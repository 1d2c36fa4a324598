"""``make bench PART=exporter``: the cost of the exporter, with a real API server and a stub of NVML.

The kubelet's PodResources API is a fake that speaks the real gRPC, and so are the ``/proc`` with the
containers' processes and their cgroups, and the files of isolation: only the exporter is measured.
There are two loads: 16 cards with 20 containers each, for the time of a scrape; 8 cards with 10 containers
each, scraped every 15 s, for the cost.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import click

from devkit.ports import free_ports
from devkit.process import Process
from gpushare import contract
from gpushare.isolation.layout import DirectoryOwner
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import CardUse
from gpushare.model.annotations import bind_annotations, even_shares
from gpushare.model.cards import Card, format_cards
from gpushare.model.demand import ContainerDemand, ContainerKind, Demand, demand_of
from gpushare.model.devices import long_id
from testbed import Bed, SchedulerSpec, Testbed, gpu_pod
from testbed.control_plane.api import Object
from testbed.daemons.exporter import exporter_argv, grant_exporter
from testbed.nvml import GpuProcess, NvmlStub, card
from tests.bench.measuring import cpu_s, percentiles, rss_mib
from tests.support.builders.regions import region_bytes, write_container_directory
from tests.support.fakes.podresources import Lister, container, pod, served
from tests.support.machine import machine

MODEL, CARD_UNITS, CARD_MIB, UNITS = "H200", 139, 143_167, 4
FIRST_PID = 1000
SCRAPES, PAUSE_S = 200, 0.15
ROUNDS, ROUND_S = 4, 15
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
BASELINE = "/healthz"


@dataclass(frozen=True)
class Load:
    """A node: the number of GPUs, and of containers on each; a container has one process."""

    node: str
    cards: int
    containers: int

    @property
    def names(self) -> list[str]:
        """The pods; the position of each gives its GPU and its PID."""
        return [f"{self.node}-{i}" for i in range(self.cards * self.containers)]


@click.command()
def main() -> None:
    """Print the results as Markdown."""
    click.echo(f"{machine()}\n")
    asyncio.run(measure())


async def measure() -> None:
    """Measure both loads, one after the other."""
    async with Testbed(scheduler=SchedulerSpec(None), kwok=False) as bed:
        await grant_exporter(bed)
        async with exporting(bed, Load("large", 16, 20)) as (process, url):
            await scrape_often(url)
            click.echo(f"Resident after that: {rss_mib(process.pid):.0f} MiB.\n")
        async with exporting(bed, Load("usual", 8, 10)) as (process, url):
            busy = cpu_s(process.pid)
            for _ in range(ROUNDS):
                await ask(f"{url}/metrics", OPENMETRICS)
                await asyncio.sleep(ROUND_S)
            cost = (cpu_s(process.pid) - busy) / (ROUNDS * ROUND_S)
            click.echo(
                f"8 cards of 10 containers, read and scraped every {ROUND_S} s: "
                f"{100 * cost:.2f} % of a core, resident {rss_mib(process.pid):.0f} MiB."
            )


async def scrape_often(url: str) -> None:
    """Alternate between scrapes and an empty answer, the baseline, over several readings."""
    took: dict[tuple[str, str], list[float]] = {(BASELINE, "*/*"): [], ("/metrics", OPENMETRICS): []}
    size = dict.fromkeys(took, 0)
    for _ in range(SCRAPES):
        for what, seen in took.items():
            begun = time.perf_counter()
            size[what] = len(await ask(f"{url}{what[0]}", what[1]))
            seen.append(time.perf_counter() - begun)
            await asyncio.sleep(PAUSE_S)
    for what, seen in took.items():
        click.echo(f"{what[0]}: {size[what]:,} bytes, {percentiles(seen)}")


async def ask(url: str, accept: str) -> bytes:
    """One answer, on a separate connection."""
    async with aiohttp.ClientSession(headers={"Accept": accept}) as session, session.get(url) as answer:
        return await answer.read()


@asynccontextmanager
async def exporting(bed: Bed, load: Load) -> AsyncIterator[tuple[Process, str]]:
    """The exporter on a node with that load; it has read everything once."""
    stub = NvmlStub(bed.folder / f"nvml-{load.node}", cards=load.cards * [card(MODEL)])
    for index in range(load.cards):
        stub.processes(
            index, [GpuProcess(FIRST_PID + i, 4000, 4, 1) for i in range(index, len(load.names), load.cards)]
        )
    uuids = [each.uuid for each in stub.description.cards]
    cards = tuple(Card(i, CARD_UNITS, uuid, MODEL, CARD_MIB) for i, uuid in enumerate(uuids))
    notes = {contract.ANN_CARDS: format_cards(cards)}
    await bed.api.create("/api/v1/nodes", {"metadata": {"name": load.node, "annotations": notes}})
    stored = await bed.create_pods([_pod(load, i) for i in range(len(load.names))])
    for i, each in enumerate(stored):
        await _run(bed, each, i)
    listed = [
        pod(name, container("main", _devices(cards[i % load.cards], i)), namespace="default")
        for i, name in enumerate(load.names)
    ]
    port = free_ports(1)[0]
    # A socket's path has 107 characters at most.
    with TemporaryDirectory(prefix="gpushare-") as folder:
        _write_proc(Path(folder), stored)
        state = Path(folder) / "isolation"
        for i, each in enumerate(stored):
            _write_enforcement(state, each, cards[i % load.cards])
        async with served(Path(folder), Lister(*listed)):
            where = [
                f"--proc-root={folder}",
                f"--pod-resources-socket={folder}/kubelet.sock",
                f"--isolation-state={state}",
            ]
            argv = exporter_argv(bed, [f"--ops-port={port}", "--ops-host=127.0.0.1", *where])
            url = f"http://127.0.0.1:{port}"
            env = {**stub.env, "NODE_NAME": load.node}
            process = await bed.spawn(f"exporter-{load.node}", argv, env=env, ready=f"{url}/readyz")
            yield process, url
            await process.stop()


def _pod(load: Load, number: int) -> Object:
    """A pod as the extender leaves it: bound, its GPU in its annotations."""
    demand = demand_of([ContainerDemand("main", ContainerKind.MAIN, UNITS)])
    assert isinstance(demand, Demand)
    shares = even_shares(demand, (number % load.cards,))
    notes = bind_annotations(demand, shares, CARD_UNITS, number)
    return gpu_pod(load.names[number], UNITS, annotations=notes, nodeName=load.node)


async def _run(bed: Bed, stored: Object, number: int) -> None:
    """Report the container of the pod as running, as a kubelet does."""
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {
        "name": "main",
        "image": "none",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": state,
        "containerID": f"containerd://{_container_id(number)}",
    }
    path = f"/api/v1/namespaces/default/pods/{stored['metadata']['name']}/status"
    await bed.api.patch(path, {"status": {"phase": "Running", "containerStatuses": [status]}})


def _devices(gpu: Card, number: int) -> tuple[str, list[str]]:
    return contract.RESOURCE_MEM, [long_id(gpu, number * UNITS + i) for i in range(UNITS)]


def _write_proc(folder: Path, stored: Sequence[Object]) -> None:
    for number, each in enumerate(stored):
        process = folder / str(FIRST_PID + number)
        process.mkdir()
        group = f"/kubepods/pod{each['metadata']['uid']}/{_container_id(number)}"
        (process / "cgroup").write_text(f"0::{group}\n")
        (process / "status").write_text(f"NSpid:\t{process.name}\t1\n")


def _write_enforcement(state: Path, stored: Object, gpu: Card) -> None:
    """Write the limit file and the region of a container with one process."""
    limit = CardLimit(gpu.uuid, CARD_MIB, UNITS, CARD_UNITS)
    content = region_bytes([CardUse(gpu.uuid, 0, 4000 << 20, 4000 << 20, 0)], [1])
    write_container_directory(state, DirectoryOwner(stored["metadata"]["uid"], "main"), [limit], content)


def _container_id(number: int) -> str:
    return f"{number:064x}"


if __name__ == "__main__":
    main()
