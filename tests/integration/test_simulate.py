"""``simulate`` on a real control plane: it allocates what kube-scheduler and the extender have allocated."""

import asyncio
import json
from random import Random
from typing import Any, Final

import pytest

from gpushare.contract import RESOURCE_MEM
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, gpu_pod, until
from testbed.control_plane.api import Object
from testbed.daemons import console_script
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from tests.support.fixtures.simulated import clear

pytestmark = pytest.mark.asyncio(loop_scope="session")

PODS: Final = "/api/v1/namespaces/default/pods"
UNITS: Final = 14
CAPACITY: Final = 10 * 4 * UNITS
LOAD: Final = 1.3


def nodes() -> list[SimNode]:
    return [
        SimNode(f"node-{index}", [SimGpu(units=UNITS)] * 4, cpu="16", memory="64Gi") for index in range(10)
    ]


def pods() -> list[Object]:
    """Pods up to the load: parts of a GPU and whole ones, and some without GPUs that take CPU."""
    rng, made, requested = Random(42), list[Object](), 0
    while requested < LOAD * CAPACITY:
        (units,) = rng.choices((0, 3, 5, 8, UNITS), (2, 3, 3, 2, 1))
        resources: dict[str, int | str] = {"cpu": f"{rng.choice((500, 1000, 2000))}m", "memory": "1Gi"}
        made.append(gpu_pod(f"p{len(made)}", units or None, resources=resources))
        requested += units
    return made


def requested(pod: Object) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["limits"].get(RESOURCE_MEM, 0))


async def allocated(bed: Bed) -> float:
    """Percent of the units, once kube-scheduler has tried all pods."""

    async def tried() -> bool:
        return all("nodeName" in each["spec"] or "conditions" in each["status"] for each in await found())

    async def found() -> list[Object]:
        return await bed.api.items(PODS)

    await until(tried, "all pods to be bound or refused", 60)
    return 100 * sum(requested(each) for each in await found() if "nodeName" in each["spec"]) / CAPACITY


async def simulated(bed: Bed) -> Any:
    process = await asyncio.create_subprocess_exec(
        console_script("kubectl-gpushare"),
        "simulate",
        f"--kubeconfig={bed.kubeconfig}",
        *("--policy=binpack", "--pods-without-gpu=scheduler", f"--load={LOAD}", "--seeds=10", "-ojson"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (process.returncode, err.decode()) == (0, "")
    return json.loads(out)["policies"]["binpack"]["gpu_allocation_ratio"]


async def test_a_cluster_allocates_what_the_simulation_of_its_pods_does(clean_bed: Bed) -> None:
    spec = ExtenderSpec()
    await grant(clean_bed)
    process = await start_extender(clean_bed, spec)
    await clean_bed.restart_scheduler(SchedulerSpec(extenders=[component_config(spec.url)]))
    await clean_bed.add_nodes(nodes())
    await clean_bed.create_pods(pods(), concurrency=1)
    live, simulation = await allocated(clean_bed), await simulated(clean_bed)
    assert min(simulation["seeds"]) - 3 <= live <= max(simulation["seeds"]) + 3
    await clear(clean_bed, spec)
    await process.stop()
