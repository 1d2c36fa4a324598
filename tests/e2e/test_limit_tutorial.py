"""The tutorial on memory limits, command by command, on a node with one GPU: first a whole GPU, then shares.

The stack runs from images on a real kubelet. NVIDIA's plugin is a stand-in in a static pod, as on ACK, and
the GPU a stub of NVML and of the CUDA driver.
"""

import json
from collections.abc import AsyncIterator
from contextlib import chdir
from pathlib import Path

import pytest
import pytest_asyncio

from gpushare import contract
from release import Images, ensure
from release.published import examples
from testbed import Bed, SchedulerSpec, Testbed
from testbed.control_plane.aggregation import TO_PODS
from testbed.control_plane.nodes import SimNode
from testbed.cuda.reporting import reporting
from testbed.daemons.whole_gpu_plugin import static_pod, until_whole_gpus
from testbed.stories import V100, deployed
from tests.support.fixtures.pages import follow

pytestmark = [
    pytest.mark.needs("images", "kubelet"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

PAGE = "docs/tutorials/limit-gpu-memory.md"
NODE = "cn-hangzhou.192.168.2.167"
MANIFESTS = "/etc/kubernetes/manifests"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def images() -> Images:
    return await ensure()


@pytest_asyncio.fixture(loop_scope="module")
async def bed(images: Images) -> AsyncIterator[Bed]:
    """A node of one V100 that shares nothing yet, in a cluster with the stack for ``cgpu=true``."""
    async with Testbed(kwok=False, scheduler=SchedulerSpec(version=None), api_flags=TO_PODS) as made:
        control_plane = await deployed.add_control_plane_node(made, images)
        node = await deployed.add_node(made, SimNode(NODE, [V100]), images, static_pods=MANIFESTS)
        plugin = node.kubelet.path(f"{MANIFESTS}/{contract.NVIDIA_PLUGIN_MANIFEST}")
        plugin.write_text(json.dumps(static_pod(node)))
        await until_whole_gpus(node, 1)
        await made.restart_scheduler(SchedulerSpec())
        configuration = deployed.configuration(images, {contract.LABEL_CGPU: "true"})
        configuration["devicePlugins"][0]["evictRecover"] = True  # type: ignore[index]
        await deployed.by_kubectl(made, configuration)
        await made.restart_scheduler(await deployed.secure_scheduler_for(made, control_plane))
        async with reporting(node.cuda, node.stub):
            yield made


async def test_each_command_of_the_tutorial_prints_what_the_page_shows(
    bed: Bed, images: Images, tmp_path: Path
) -> None:
    folder = tmp_path / "examples"
    folder.mkdir()
    for name, text in examples(images.references["samples"]).items():
        (folder / f"{name}.yaml").write_text(text)
    with chdir(tmp_path):
        await follow(bed, PAGE)
