"""A real Prometheus over our daemons on a real kubelet with two simulated cards, whose load is a script.

What belongs here: the scene. What does not: what tests ask of it.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gpushare.isolation.layout import DirectoryOwner
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import CardUse
from testbed import Bed
from testbed.daemons.agent import GpuNode, add_gpu_node
from testbed.daemons.exporter import grant_exporter, start_exporter
from testbed.daemons.prometheus import Prometheus, start_prometheus
from testbed.kubelets import KubeletSpec
from testbed.nvml import Process, card
from tests.support.gpunodes import SHARING, container, gpu_bed, pod, running
from tests.support.recount import cards_of, pid_of
from tests.support.regions import hold, region_bytes

USED_MIB = 3001
BUSY_MIB, IDLE_MIB = 15079 * 4 // 14, 15079 * 6 // 14
"""What 4 and 6 of a T4's 14 units are."""
_QUICK = ["--interval-seconds=0.3", "--deadline-seconds=2", "--stale-seconds=6"]


@dataclass(frozen=True)
class Scene:
    """Two T4 on the node ``t4``: the pod ``busy`` has 4 units and computes, ``idle`` has 6 and does not.

    ``busy`` takes 23 % of the multiprocessors of its card, which computes half of the time. Isolation, a
    fake of files, holds it to its share and has counted all that it uses.
    """

    bed: Bed
    node: GpuNode
    prometheus: Prometheus


@asynccontextmanager
async def scraped(rules: Sequence[Path] = ()) -> AsyncIterator[Scene]:
    """The scene with these files of rules."""
    async with gpu_bed() as found:
        bed = found.bed
        await grant_exporter(bed)
        spec = KubeletSpec("t4", labels=SHARING)
        node = await add_gpu_node(bed, spec, 2 * [card("T4")], flags=["--health-check=false"])
        state = bed.folder / "isolation"
        exporter = await start_exporter(node, [*_QUICK, f"--isolation-state={state}"])
        urls = {"extender": found.extender.ops_url, "agent": node.ops_url, "exporter": exporter.url}
        targets = {job: [url.removeprefix("http://")] for job, url in urls.items()}
        prometheus = await start_prometheus(bed, targets, rules)
        await _begin(bed, node, state)
        yield Scene(bed, node, prometheus)


async def _begin(bed: Bed, node: GpuNode, state: Path) -> None:
    await bed.create_pods([pod("busy", container(4)), pod("idle", container(6))])
    busy, _ = [await running(bed, name) for name in ("busy", "idle")]
    index = cards_of(node)["busy"]
    work = Process(pid_of(node, "busy"), used_mib=USED_MIB, sm=23, memory=5)
    node.stub.set(index, processes=(work,), gpu_util=50, temperature=32, power_mw=55_500)
    # An application's own mistake, which closes no card.
    node.stub.xid(index, 31)
    uuid = node.stub.uuid(index)
    counted = region_bytes([CardUse(uuid, 0, USED_MIB << 20, USED_MIB << 20, 1)])
    hold(state, DirectoryOwner(busy["metadata"]["uid"], "main"), [CardLimit(uuid, 15079, 4, 14)], counted)
