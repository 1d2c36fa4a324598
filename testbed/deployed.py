"""A story's cluster as users have it: our services run as pods, from images, with the rights deployed.

What belongs here: the cluster around them, a control plane node, nodes with cards, a scheduler that is
told of the node port. What does not: how they are deployed, which is the caller's, and their images
(``testbed.images``).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gpushare.contract import EXTENDER_NODE_PORT, EXTENDER_PREFIX
from testbed.agent import CardNode
from testbed.bed import Bed
from testbed.deploying import Deploy, configuration
from testbed.extender import component_config
from testbed.images import Images, load
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet
from testbed.nodes import SimNode
from testbed.nvml import NvmlStub, cdi
from testbed.play import stub_cards
from testbed.scheduler import SchedulerSpec
from testbed.start import Testbed
from testbed.stories import Story
from testbed.waiting import together

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_ERA = 580
_OFFERED_S = 90.0


@dataclass(frozen=True)
class Stage:
    """The nodes with cards, and the names of the objects that were deployed."""

    nodes: list[CardNode]
    made: list[str]


@asynccontextmanager
async def deployed_stage(story: Story, images: Images, deploy: Deploy) -> AsyncIterator[Stage]:
    """The story's cluster: what ``deploy`` made is ready, and nothing is placed yet."""
    async with Testbed(kwok=False, scheduler=SchedulerSpec(version=None)) as bed:
        master = await _add_master(bed, images)
        nodes = await together(_add_node(bed, each, story, images) for each in story.nodes)
        await bed.restart_scheduler(SchedulerSpec(extenders=[component_config(_url(master))]))
        made = await deploy(bed, configuration(images, story.nodes[0].labels))
        await together(each.until_offered(_OFFERED_S) for each in nodes)
        yield Stage(nodes, made)


async def _add_master(bed: Bed, images: Images) -> KubeletNode:
    master = await add_kubelet(bed, KubeletSpec("master", labels={CONTROL_PLANE: ""}, services=True))
    await load(master, images)
    return master


async def _add_node(bed: Bed, node: SimNode, story: Story, images: Images) -> CardNode:
    stub = NvmlStub(bed.folder / f"nvml-{node.name}", era=_ERA, cards=stub_cards(node))
    spec = KubeletSpec(
        node.name,
        labels=node.labels,
        runtime="nvidia",
        files={cdi.FILE: cdi.specification(stub)},
        services=True,
    )
    kubelet = await add_kubelet(bed, spec)
    await kubelet.stand_in(*story.images)
    await load(kubelet, images)
    return CardNode(bed, kubelet, stub)


def _url(master: KubeletNode) -> str:
    return f"http://{master.address}:{EXTENDER_NODE_PORT}{EXTENDER_PREFIX}"
