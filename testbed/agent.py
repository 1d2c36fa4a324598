"""Our node agent on the real kubelets of a bed, over a stub of NVML: no machine here has a card.

What belongs here: starting agents under their own service account. What does not: what they decide,
the kubelets (``testbed.kubelets``) and the stub (``testbed.nvml``).
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from gpushare.contract import RESOURCE_MEM
from testbed.bed import Bed
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet
from testbed.nvml import Card, NvmlStub
from testbed.process import Process
from testbed.waiting import until

ACCOUNT = "system:serviceaccount:kube-system:gpushare-device-plugin"
OPS_PORT = 12347
NAME = "device-plugin"


@dataclass
class GpuNode:
    """A node with cards: a real kubelet, the stub of its driver, and the agent's process on it."""

    bed: Bed
    kubelet: KubeletNode
    stub: NvmlStub
    agent: Process

    @property
    def name(self) -> str:
        """The node's name."""
        return self.kubelet.name

    @property
    def ops_url(self) -> str:
        """Where the agent's health and metrics are."""
        return f"http://{self.kubelet.address}:{OPS_PORT}"


async def grant_agent(bed: Bed) -> None:
    """Create the agent's account, roles and bindings."""
    await bed.apply(files("testbed").joinpath("manifests/device-plugin-rbac.yaml").read_text())


async def add_gpu_node(
    bed: Bed,
    spec: KubeletSpec,
    cards: Sequence[Card],
    *,
    era: int = 580,
    flags: Sequence[str] = (),
    ready: bool = True,
) -> GpuNode:
    """Start a node and the agent on it; with ``ready``, return when pods that ask for its cards can come."""
    stub = NvmlStub(bed.folder / f"nvml-{spec.name}", era=era, cards=cards)
    kubelet = await add_kubelet(bed, spec)
    url = f"http://{kubelet.address}:{OPS_PORT}/readyz"
    agent = await kubelet.spawn(
        NAME, agent_argv(bed, flags), env=agent_env(spec.name, stub), ready=url if ready else None
    )
    if ready:
        await until(lambda: _offers(bed, spec.name), f"node {spec.name} to offer {RESOURCE_MEM}")
    return GpuNode(bed, kubelet, stub, agent)


async def _offers(bed: Bed, node: str) -> bool:
    status = (await bed.api.get(f"/api/v1/nodes/{node}"))["status"]
    return bool(status["allocatable"].get(RESOURCE_MEM, "0") != "0")


def agent_argv(bed: Bed, flags: Sequence[str] = ()) -> list[str]:
    """The agent's command line, by the original's name and with the original's flags."""
    program = str(Path(sys.executable).with_name("gpushare-device-plugin-v2"))
    account = f"--kubeconfig={bed.kubeconfig_for(ACCOUNT)}"
    return [program, "-logtostderr", "--v=9", account, f"--ops-port={OPS_PORT}", *flags]


def agent_env(node: str, stub: NvmlStub) -> dict[str, str]:
    """The agent's environment."""
    return {**stub.env, "NODE_NAME": node}
