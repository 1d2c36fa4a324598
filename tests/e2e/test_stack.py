"""The whole system: one ``pulumi up`` deploys our images, and workloads run on real kubelets.

What is not real: GPUs (stubs of NVML and of the CUDA driver, which NVIDIA's own runtime adds to containers),
and the images of tf-notebook and binpack-1 (a busybox with their names). Prometheus is real.
"""

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
import pytest_asyncio

from gpushare.contract import EXPORTER_NAME, EXPORTER_PORT
from release import Images, ensure
from testbed import Bed, until
from testbed.control_plane.api import Object
from testbed.daemons.prometheus import start_prometheus
from testbed.programs.debian import program
from testbed.stories import Story, isolation, notebooks
from testbed.stories.deployed import Deploy, by_kubectl, by_pulumi, deployed_cluster
from testbed.stories.play import perform, pod_events, show
from tests.support.fixtures.pages import follow
from tests.support.limits import limits
from tests.support.promtool import FILES

pytestmark = [
    pytest.mark.needs("kubelet", "images"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]


REFUSED = (
    "CUDA error at cgpu_cuda_malloc.cu:119 code=2(cudaErrorMemoryAllocation) "
    '"cudaMalloc( (void**)&dev_c, malloc_size)"'
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def images() -> Images:
    return await ensure()


@dataclass(frozen=True)
class Told:
    """Observations after a story: outputs by command, our pods, limits, events, usage, and limited pods."""

    outputs: Mapping[str, str]
    ours: list[Object]
    limits: str
    events: str
    use: list[Any]
    held: list[Any]

    def output(self, part: str) -> str:
        """The output of the only command with this text."""
        (text,) = (text for command, text in self.outputs.items() if part in command)
        return text


async def nothing(bed: Bed) -> None:
    """No more than the story."""


async def played(
    story: Story,
    images: Images,
    deploy: Deploy = by_pulumi,
    then: Callable[[Bed], Awaitable[None]] = nothing,
) -> Told:
    async with deployed_cluster(story, images, deploy) as cluster:
        bed = cluster.nodes[0].bed
        for step in story.steps:
            await perform(bed, step)
        limited = await limits(bed)
        outputs = {command: await show(bed, command) for command in (*story.commands, *story.inside)}
        await then(bed)
        return Told(
            outputs,
            await bed.api.items("/api/v1/namespaces/kube-system/pods"),
            str(limited),
            str(await pod_events(bed)),
            await until(partial(use_of, bed, len(limited)), f"exporters to show {len(limited)} pods"),
            json.loads(await show(bed, "kubectl gpushare limits -o json"))["items"],
        )


async def use_of(bed: Bed, pods: int) -> list[Any]:
    """The values of the exporters, as soon as they have that number of pods."""
    rows: list[Any] = json.loads(await show(bed, "kubectl gpushare top pod -o json"))["items"]
    return rows if len(rows) == pods else []


def images_of(pods: list[Object]) -> list[Any]:
    return sorted(each["spec"]["containers"][0]["image"] for each in pods)


async def test_s0_three_notebooks_share_one_gpu_and_the_fourth_has_a_reason(images: Images) -> None:
    reported = await played(notebooks(), images)
    # The two Jobs of the certificates have ended.
    names = ("cli", "cli", "device-plugin", "exporter", "extender", "isolation", "metrics-api", "metrics-api")
    assert images_of(reported.ours) == sorted(images.references[name] for name in names)
    assert {each["status"]["containerStatuses"][0]["restartCount"] for each in reported.ours} == {0}
    assert reported.limits.count("4308 MiB") == 3
    assert "12/14 (GiB) (85%)" in reported.outputs["kubectl gpushare top node -s"]
    assert {"ALIYUN_COM_GPU_MEM_IDX=0", "ALIYUN_COM_GPU_MEM_DEV=14"} < set(
        reported.output("exec").splitlines()
    )
    assert "at most 2 of 14 free on GPU 0" in reported.events
    assert [row["allocatedBytes"] for row in reported.use] == [4308 << 20] * 3
    assert [(row["limitBytes"], row["usedBytes"]) for row in reported.held] == [(4308 << 20, 0)] * 3


async def watched(bed: Bed) -> None:
    """Prometheus shows what the tutorial on monitoring has."""
    pods = await bed.api.items(
        "/api/v1/namespaces/kube-system/pods", labelSelector=f"component={EXPORTER_NAME}"
    )
    targets = {"exporters": [f"{pod['status']['podIP']}:{EXPORTER_PORT}" for pod in pods]}
    prometheus = await start_prometheus(bed, targets, FILES)
    ratio = "count(pod:gpushare_memory_utilization:ratio) == 3"
    await until(lambda: prometheus.ask(ratio), "the rules to have recorded three pods", 30)
    tools = f"{program('promtool').parent}:{os.environ['PATH']}"
    with patch.dict(os.environ, PROMETHEUS=prometheus.url, PATH=tools):
        await follow(bed, "docs/tutorials/monitor.md")


@pytest.mark.needs("prometheus", "promtool")
@pytest.mark.short
async def test_s2_without_pulumi_each_program_gets_its_memory_and_no_more(images: Images) -> None:
    reported = await played(isolation(images.references["samples"]), images, by_kubectl, watched)
    assert reported.limits.count("4301 MiB") == 3
    assert "12/15 (80%)" in reported.outputs["kubectl inspect cgpu"]
    assert "ALIYUN_COM_GPU_MEM_CONTAINER=4" in reported.output("env")
    assert "|   3193MiB /  4301MiB |" in reported.output("nvidia-smi")
    assert "Total amount of global memory:                 4301 MBytes" in reported.output("-size=512")
    assert REFUSED in reported.output("-size=1024")
    assert "exit code 1" in reported.output("-size=1024")
    assert REFUSED in reported.output("logs app-6g-v1-0")
    pods = [line.split() for line in reported.output("get pods").splitlines()]
    *running, crashing = [row[2] for row in pods[1:]]
    assert running == ["Running", "Running"]
    # Between two pauses it starts and fails again.
    assert crashing in {"CrashLoopBackOff", "Error", "Running"}
    used = {row["pod"]: row["usedBytes"] for row in reported.held}
    # Also without those that have ended: the programs of the commands.
    assert {used[f"app-3g-v1-{index}"] for index in (0, 1)} == {3193 << 20}
