"""The recipe of two vLLM servers on a real kubelet: one GPU has room for both, and each keeps to its limit.

The manifest is the one of the recipe. Its image is replaced by one that allocates what vLLM would allocate:
its fraction of the memory that it sees, as ``request_memory`` in vllm/v1/worker/utils.py computes it. The GPU
is a stub of NVML and of the CUDA driver.
"""

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gpushare import contract
from testbed import Bed, until
from testbed.control_plane.api import Object
from testbed.daemons.agent import GpuNode, start_agent
from testbed.daemons.exporter import ExporterProcess, grant_exporter, start_exporter
from tests.support.fixtures.enforced_nodes import IMAGE, V100_MIB, add_enforced_node, counted, region_of
from tests.support.fixtures.gpu_nodes import container, pod, replicas_run, running
from tests.support.fixtures.isolation import MIB, needs_compiler
from tests.support.fixtures.pages import ROOT

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module"), needs_compiler]

RECIPE = ROOT / "examples" / "recipes" / "vllm" / "vllm.yaml"
UNITS = {"chat": 8, "embeddings": 6}
V100_UNITS = 15
CONTEXT_MIB = 121
REFUSED = "code=2(cudaErrorMemoryAllocation)"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(bed: Bed, package: Path, archive: Path) -> GpuNode:
    """One V100 of 16130 MiB and 15 units, which limits containers."""
    label = (contract.LABEL_CGPU, "true")
    found, _ = await add_enforced_node(bed, label, package, [archive], context_mib=CONTEXT_MIB)
    return await start_agent(found)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exporter(bed: Bed, node: GpuNode) -> ExporterProcess:
    await grant_exporter(bed)
    return await start_exporter(node)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(bed: Bed, node: GpuNode) -> AsyncIterator[dict[str, Object]]:
    """The pods of the recipe, as soon as each has allocated its memory."""
    await bed.kubectl("create", "secret", "generic", "vllm", "--from-literal=api-key=of-the-test")
    await bed.apply(yaml.safe_dump_all(stood_in(each) for each in yaml.safe_load_all(RECIPE.read_text())))
    found = {name: (await replicas_run(bed, name, 1))[0] for name in UNITS}
    for name, each in found.items():
        await until_counted(node, each, taken_mib(name) + CONTEXT_MIB)
    yield found


def limit_mib(name: str) -> int:
    return V100_MIB * UNITS[name] // V100_UNITS


def taken_mib(name: str) -> int:
    """What vLLM takes with the fraction of the recipe, in whole MiB."""
    return math.ceil(limit_mib(name) * 0.85)


def stood_in(each: Any) -> Any:
    """The object with a program that allocates like vLLM, and without requests for CPUs."""
    if each["kind"] == "Deployment":
        spec = each["spec"]["template"]["spec"]
        spec["terminationGracePeriodSeconds"] = 0
        (server,) = spec["containers"]
        assert "--gpu-memory-utilization=0.85" in server["args"]
        hold = f"trap exit TERM; cuda_malloc -size={taken_mib(each['metadata']['name'])} -hold & wait $!"
        server |= {"image": IMAGE, "command": ["sh", "-c", hold], "args": []}
        del server["startupProbe"], server["readinessProbe"], server["resources"]["requests"]
        server["resources"]["limits"].pop("memory")
    return each


async def until_counted(node: GpuNode, found: Object, mib: int) -> None:
    async def reached() -> bool:
        return counted(node, found) == mib * MIB

    await until(reached, f"{mib} MiB to be counted for {found['metadata']['name']}", 60)


async def test_both_servers_run_on_one_gpu_with_the_limits_of_their_units(
    node: GpuNode, servers: dict[str, Object]
) -> None:
    for name, each in servers.items():
        assert each["metadata"]["annotations"][contract.ANN_IDX] == "0"
        assert each["metadata"]["annotations"][contract.ANN_POD] == str(UNITS[name])
        seen = region_of(node, each)
        assert seen.cards[0].limit // MIB == limit_mib(name)
        assert seen.cards[0].refusals == 0


async def sees(bed: Bed, found: Object) -> str:
    """What a program in the container sees; it reclaims the memory of those that have ended."""
    return await bed.kubectl("exec", found["metadata"]["name"], "--", "nvml_memory")


def undisturbed(name: str) -> str:
    return f"{taken_mib(name) + CONTEXT_MIB}MiB / {limit_mib(name)}MiB\n"


async def test_each_server_sees_a_gpu_of_the_size_of_its_limit(bed: Bed, servers: dict[str, Object]) -> None:
    for name, each in servers.items():
        assert await sees(bed, each) == undisturbed(name)


async def test_a_server_that_grows_beyond_its_limit_is_refused(bed: Bed, servers: dict[str, Object]) -> None:
    """Without an effect on the other one."""
    chat, embeddings = (servers[name]["metadata"]["name"] for name in ("chat", "embeddings"))
    room = limit_mib("chat") - taken_mib("chat")
    command = f"cuda_malloc -size={room} 2>&1; true"
    assert REFUSED in await bed.kubectl("exec", chat, "--", "sh", "-c", command)
    for name in (chat, embeddings):
        assert (await running(bed, name))["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_a_third_program_with_the_last_unit_cannot_take_more(
    bed: Bed, node: GpuNode, servers: dict[str, Object]
) -> None:
    script = "trap exit TERM; cuda_malloc -size=2048; sleep infinity & wait $!"
    await bed.create_pods([pod("third", container(1, image=IMAGE, script=script))])
    third = await running(bed, "third", 60)

    async def refused() -> bool:
        return REFUSED in await bed.kubectl("logs", "third")

    await until(refused, "the third program to be refused", 60)
    assert region_of(node, third).cards[0].refusals == 1
    for name, each in servers.items():
        assert await sees(bed, each) == undisturbed(name)


async def test_metrics_show_limit_and_use_of_each_server(
    bed: Bed, exporter: ExporterProcess, servers: dict[str, Object]
) -> None:
    for each in servers.values():
        await sees(bed, each)
    pods = {each["metadata"]["name"]: name for name, each in servers.items()}

    async def shown() -> bool:
        limits = await exporter.values("gpushare_container_memory_limit_bytes", "pod")
        used = await exporter.values("gpushare_container_memory_counted_bytes", "pod")
        return all(
            limits.get((each,), 0) // MIB == limit_mib(name)
            and used.get((each,), 0) == (taken_mib(name) + CONTEXT_MIB) * MIB
            for each, name in pods.items()
        )

    await until(shown, "the metrics of both servers", 60)
