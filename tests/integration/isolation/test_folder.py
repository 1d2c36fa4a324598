"""The folder of the library on a node, where the default one is on a mount that forbids execution.

Like /var of Google: cloud.google.com/container-optimized-os/docs/concepts/disks-and-filesystem (2025-09-04).
"""

from pathlib import Path

import pytest
import pytest_asyncio

from gpushare import contract
from gpushare.installer.install import install
from testbed import Bed, until
from testbed.daemons.agent import CardNode, GpuNode, start_agent
from tests.support.fixtures.enforced_nodes import IMAGE, add_enforced_node
from tests.support.fixtures.gpu_nodes import container, node_object, pod, running
from tests.support.fixtures.isolation import needs_compiler

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module"), needs_compiler]

PROC = "--proc-root=/proc"
OTHER = "/var/lib/of-google"
SLEEPS = "trap exit TERM; sleep infinity & wait $!"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(bed: Bed, package: Path, archive: Path) -> CardNode:
    found, _ = await add_enforced_node(bed, (contract.LABEL_CGPU, "true"), package, [archive])
    await found.kubelet.run_text(["mount", "-o", "remount,bind,noexec", contract.ISOLATION_LIBRARIES])
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def closed(node: CardNode) -> GpuNode:
    """The node with an agent that has closed it."""
    return await start_agent(node, [PROC], ready=False)


async def reason(node: CardNode) -> str:
    """Why the node is closed; empty while it is open."""
    return str((await node_object(node))["metadata"].get("annotations", {}).get(contract.ANN_CLOSED, ""))


async def test_a_node_whose_programs_could_not_load_the_library_is_closed(closed: GpuNode) -> None:
    folder = contract.ISOLATION_LIBRARIES
    text = await until(lambda: reason(closed), "the node to be closed", 30)
    assert f"{folder} there is on {folder}, which is mounted noexec" in text


async def test_with_another_folder_the_node_limits_its_containers(
    bed: Bed, closed: GpuNode, package: Path
) -> None:
    await closed.agent.stop()
    install(package, closed.kubelet.path(OTHER))
    node = await start_agent(closed, [PROC, f"--isolation-libraries={OTHER}"])
    await bed.create_pods([pod("limited", container(4, image=IMAGE, script=SLEEPS))])
    await running(bed, "limited", 60)
    assert await reason(node) == ""
    shown = await bed.kubectl("exec", "limited", "--", "sh", "-c", "cuda_malloc -size=5000 2>&1; echo $?")
    assert "code=2(cudaErrorMemoryAllocation)" in shown
