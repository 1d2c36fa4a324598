"""The cluster of a scenario as users have it: our services run as pods from images, with deployed rights.

What belongs here: a control plane node, nodes with GPUs, a scheduler that calls the extender at its node
port over mutual TLS, and the deployment as users do it: with Pulumi, or with kubectl from the same objects.
What does not: the images (``release``) and the objects (``components``).
"""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from components.manifests import everything
from components.render import as_yaml
from components.stack import load as load_stack
from devkit.waiting import together, until
from gpushare.contract import CLIENT_TLS_SECRET, EXTENDER_NODE_PORT, EXTENDER_PREFIX, SYSTEM_NAMESPACE
from release import Images
from testbed.control_plane.aggregation import TO_PODS
from testbed.control_plane.bed import Bed
from testbed.control_plane.nodes import SimNode
from testbed.control_plane.scheduler import SchedulerSpec
from testbed.control_plane.start import Testbed
from testbed.cuda import CudaCard, CudaStub
from testbed.cuda.reporting import reporting
from testbed.daemons.agent import CardNode
from testbed.daemons.extender import component_config
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet
from testbed.kubelets.services import load
from testbed.nvml import NvmlStub, cdi
from testbed.pulumi import PulumiStack, old_tokens
from testbed.stories import Story
from testbed.stories.play import stub_cards

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_OFFERED_S = 90.0
_CONTEXT_MIB = 121
"""Memory of a CUDA context, as in the ACK documentation."""
_HOST_MIB = 124_610
"""Memory of a DGX Spark, which is that of its GPU."""
_CERTIFICATE_S = 90.0
_CLIENT_SECRET = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets/{CLIENT_TLS_SECRET}"
Deploy = Callable[[Bed, Mapping[str, object]], Awaitable[list[str]]]
"""Deploys a configuration and returns the created objects: "<kind>/<namespace>/<name>"."""


@dataclass
class DeployedNode(CardNode):
    """A node with GPUs that containers can use; ``cuda`` is their driver."""

    cuda: CudaStub


@dataclass(frozen=True)
class DeployedCluster:
    """The nodes with GPUs, and the deployed objects: "<kind>/<namespace>/<name>"."""

    nodes: list[DeployedNode]
    objects: list[str]


@asynccontextmanager
async def deployed_cluster(story: Story, images: Images, deploy: Deploy) -> AsyncIterator[DeployedCluster]:
    """Run the cluster of a scenario: the deployed services are ready, and no pod is placed yet."""
    async with Testbed(kwok=False, scheduler=SchedulerSpec(version=None), api_flags=TO_PODS) as bed:
        control_plane = await add_control_plane_node(bed, images)
        ours = images.references.values()
        stand_ins = [name for name in story.images if name not in ours]
        nodes = await together(add_node(bed, each, images, stand_ins) for each in story.nodes)
        await bed.restart_scheduler(SchedulerSpec())
        objects = await deploy(bed, configuration(images, story.nodes[0].labels))
        await bed.restart_scheduler(await secure_scheduler_for(bed, control_plane))
        await together(each.until_offered(_OFFERED_S) for each in nodes)
        async with AsyncExitStack() as stack:
            for each in nodes:
                await stack.enter_async_context(reporting(each.cuda, each.stub))
            yield DeployedCluster(nodes, objects)


async def add_control_plane_node(bed: Bed, images: Images, name: str = "master") -> KubeletNode:
    """Add a control plane node that has the images."""
    node = await add_kubelet(bed, KubeletSpec(name, labels={CONTROL_PLANE: ""}, services=True))
    await load(node, images)
    return node


async def add_node(
    bed: Bed, node: SimNode, images: Images, stand_ins: Sequence[str] = (), static_pods: str = ""
) -> DeployedNode:
    """Add a node with GPUs that has the images; a busybox replaces the images in ``stand_ins``.

    ``static_pods`` is the folder of its static pods, if it has one.
    """
    cards = stub_cards(node)
    stub = NvmlStub(bed.folder / f"nvml-{node.name}", cards=cards)
    cuda = CudaStub(
        bed.folder / f"cuda-{node.name}",
        cards=[
            CudaCard(stub.uuid(index), each.total_mib or _HOST_MIB, _CONTEXT_MIB, each.name)
            for index, each in enumerate(cards)
        ],
    )
    spec = KubeletSpec(
        node.name,
        labels=node.labels,
        runtime="nvidia",
        files={cdi.FILE: cdi.specification(stub, cuda)}
        | ({f"{static_pods}/.folder": ""} if static_pods else {}),
        config={"staticPodPath": static_pods, "fileCheckFrequency": "1s"} if static_pods else {},
        services=True,
    )
    kubelet = await add_kubelet(bed, spec)
    if stand_ins:
        await kubelet.stand_in(*stand_ins)
    await load(kubelet, images)
    return DeployedNode(bed, kubelet, stub, cuda)


def scheduler_for(control_plane: KubeletNode) -> SchedulerSpec:
    """Return a scheduler that calls the extender at the node port of ``control_plane``, without TLS."""
    return SchedulerSpec(extenders=[component_config(_url("http", control_plane))])


async def secure_scheduler_for(bed: Bed, control_plane: KubeletNode) -> SchedulerSpec:
    """Return such a scheduler with the client certificate of the stack, as soon as that is made."""

    async def made() -> Mapping[str, str]:
        content: Mapping[str, str] = (await bed.api.get(_CLIENT_SECRET)).get("data") or {}
        return content

    folder = bed.folder / CLIENT_TLS_SECRET
    folder.mkdir()
    for name, content in (
        await until(made, "the client certificate of the scheduler", _CERTIFICATE_S)
    ).items():
        (folder / name).write_bytes(base64.b64decode(content))
    entry = component_config(_url("https", control_plane), certificates=folder)
    return SchedulerSpec(extenders=[entry])


def _url(scheme: str, control_plane: KubeletNode) -> str:
    return f"{scheme}://{control_plane.address}:{EXTENDER_NODE_PORT}{EXTENDER_PREFIX}"


def configuration(images: Images, labels: Mapping[str, str]) -> dict[str, object]:
    """Return the configuration of our services; ``labels`` select the nodes of agent and exporter."""
    return {
        "kubernetesVersion": "1.36",
        "extender": {
            "exposure": "node-port",
            "image": images.references["extender"],
            "certificatesImage": images.references["cli"],
        },
        "devicePlugins": [{"image": images.references["device-plugin"], "nodeSelector": dict(labels)}],
        "isolation": {"image": images.references["isolation"]},
        "monitoring": {
            "exporter": {
                "image": images.references["exporter"],
                "nodeLabels": [f"{key}={value}" for key, value in labels.items()],
                "intervalSeconds": 1,
            },
            "metricsApi": {
                "image": images.references["metrics-api"],
                "certificatesImage": images.references["cli"],
                # Nodes here have two cores.
                "cpu": "100m",
            },
        },
    }


async def by_pulumi(bed: Bed, configuration: Mapping[str, object]) -> list[str]:
    """Deploy by ``pulumi up`` with the real engine."""
    await old_tokens(bed)
    stack = await PulumiStack.create(bed, configuration)
    return list((await stack.up()).changes)


async def by_kubectl(bed: Bed, configuration: Mapping[str, object]) -> list[str]:
    """Deploy by ``kubectl apply`` of the output of ``components.render``."""
    text = await bed.apply(as_yaml(everything(load_stack(configuration))))
    return [line.split()[0] for line in text.splitlines()]
