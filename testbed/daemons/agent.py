"""Our node agent on the real kubelets of a testbed, with a stub of NVML instead of GPUs.

What belongs here: starting agents under their service account. What does not: the behaviour of the agent,
the kubelets (``testbed.kubelets``) and the stub (``testbed.nvml``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from devkit.process import Process
from devkit.waiting import until
from gpushare.contract import RESOURCE_MEM
from testbed.control_plane.bed import Bed
from testbed.daemons import console_script, rights
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet
from testbed.nvml import NvmlGpu, NvmlStub
from testbed.nvml.eras import NEWEST

ACCOUNT = "system:serviceaccount:kube-system:gpushare-device-plugin"
OPS_PORT = 12347
NAME = "device-plugin"


@dataclass
class CardNode:
    """A node with GPUs: a real kubelet and the stub of its driver."""

    bed: Bed
    kubelet: KubeletNode
    stub: NvmlStub

    @property
    def name(self) -> str:
        """The node's name."""
        return self.kubelet.name

    async def until_offered(self, timeout_s: float = 30.0) -> None:
        """Wait until the node offers GPU memory."""
        await until(self._offers, f"node {self.name} to offer {RESOURCE_MEM}", timeout_s)

    async def _offers(self) -> bool:
        status = (await self.bed.api.get(f"/api/v1/nodes/{self.name}"))["status"]
        return bool(status["allocatable"].get(RESOURCE_MEM, "0") != "0")


@dataclass
class GpuNode(CardNode):
    """A node with GPUs and the agent as a process on it."""

    agent: Process

    @property
    def ops_url(self) -> str:
        """URL of the health and metrics of the agent."""
        return f"http://{self.kubelet.address}:{OPS_PORT}"


async def grant_agent(bed: Bed) -> None:
    """Create the account, roles and bindings of the agent."""
    await bed.apply(rights.of_agent())


async def add_gpu_node(
    bed: Bed,
    spec: KubeletSpec,
    cards: Sequence[NvmlGpu],
    *,
    era: int = NEWEST,
    flags: Sequence[str] = (),
    program: Sequence[str] = (),
    ready: bool = True,
) -> GpuNode:
    """Start a node and the agent on it; with ``ready``, return when the node offers GPU memory.

    ``program`` runs in place of the agent's command.
    """
    node = await add_card_node(bed, spec, cards, era=era)
    return await start_agent(node, flags, program=program, ready=ready)


async def add_card_node(
    bed: Bed, spec: KubeletSpec, cards: Sequence[NvmlGpu], *, era: int = NEWEST
) -> CardNode:
    """Start a node without the agent."""
    stub = NvmlStub(bed.folder / f"nvml-{spec.name}", era=era, cards=cards)
    return CardNode(bed, await add_kubelet(bed, spec), stub)


async def start_agent(
    node: CardNode, flags: Sequence[str] = (), *, program: Sequence[str] = (), ready: bool = True
) -> GpuNode:
    """Start the agent on a node."""
    url = f"http://{node.kubelet.address}:{OPS_PORT}/readyz"
    argv, env = agent_argv(node.bed, flags, program), agent_env(node.name, node.stub)
    agent = await node.kubelet.spawn(NAME, argv, env=env, ready=url if ready else None)
    found = GpuNode(node.bed, node.kubelet, node.stub, agent)
    if ready:
        await found.until_offered()
    return found


def agent_argv(bed: Bed, flags: Sequence[str] = (), program: Sequence[str] = ()) -> list[str]:
    """Return the command line of the agent, with the name and the flags of the Aliyun plugin."""
    command = program or [console_script("gpushare-device-plugin-v2")]
    account = f"--kubeconfig={bed.kubeconfig_for(ACCOUNT)}"
    return [*command, "-logtostderr", "--v=9", account, f"--ops-port={OPS_PORT}", *flags]


def agent_env(node: str, stub: NvmlStub) -> dict[str, str]:
    """Return the environment of the agent."""
    return {**stub.env, "NODE_NAME": node}
