"""The cluster of a scenario as users have it: our services run as pods from images, with deployed rights.

What belongs here: the cluster: a control plane node, nodes with GPUs, and a scheduler that calls the extender
at its node port. What does not: the deployment, which is up to the caller, and the images (``release``).
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gpushare.contract import EXTENDER_NODE_PORT, EXTENDER_PREFIX
from release import Images, load
from testbed.control_plane.bed import Bed
from testbed.control_plane.nodes import SimNode
from testbed.control_plane.scheduler import SchedulerSpec
from testbed.control_plane.start import Testbed
from testbed.daemons.agent import CardNode
from testbed.daemons.extender import component_config
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet
from testbed.nvml import NvmlStub, cdi
from testbed.stories import Story
from testbed.stories.deploying import Deploy, configuration
from testbed.stories.play import stub_cards
from testbed.system.waiting import together

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_ERA = 580
_OFFERED_S = 90.0


@dataclass(frozen=True)
class Stage:
    """The nodes with GPUs, and the names of the deployed objects."""

    nodes: list[CardNode]
    made: list[str]


@asynccontextmanager
async def deployed_stage(story: Story, images: Images, deploy: Deploy) -> AsyncIterator[Stage]:
    """Run the cluster of a scenario: the deployed services are ready, and no pod is placed yet."""
    async with Testbed(kwok=False, scheduler=SchedulerSpec(version=None)) as bed:
        master = await add_master(bed, images)
        nodes = await together(add_node(bed, each, images, story.images) for each in story.nodes)
        await bed.restart_scheduler(scheduler_for(master))
        made = await deploy(bed, configuration(images, story.nodes[0].labels))
        await together(each.until_offered(_OFFERED_S) for each in nodes)
        yield Stage(nodes, made)


async def add_master(bed: Bed, images: Images, name: str = "master") -> KubeletNode:
    """Add a control plane node that has the images."""
    master = await add_kubelet(bed, KubeletSpec(name, labels={CONTROL_PLANE: ""}, services=True))
    await load(master, images)
    return master


async def add_node(bed: Bed, node: SimNode, images: Images, stand_ins: Sequence[str] = ()) -> CardNode:
    """Add a node with GPUs that has the images; a busybox replaces the images in ``stand_ins``."""
    stub = NvmlStub(bed.folder / f"nvml-{node.name}", era=_ERA, cards=stub_cards(node))
    spec = KubeletSpec(
        node.name,
        labels=node.labels,
        runtime="nvidia",
        files={cdi.FILE: cdi.specification(stub)},
        services=True,
    )
    kubelet = await add_kubelet(bed, spec)
    if stand_ins:
        await kubelet.stand_in(*stand_ins)
    await load(kubelet, images)
    return CardNode(bed, kubelet, stub)


def scheduler_for(master: KubeletNode) -> SchedulerSpec:
    """Return a scheduler that calls the extender at the node port of ``master``."""
    url = f"http://{master.address}:{EXTENDER_NODE_PORT}{EXTENDER_PREFIX}"
    return SchedulerSpec(extenders=[component_config(url)])
