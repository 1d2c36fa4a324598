"""Our exporter on the real kubelets of a testbed, with a stub of NVML instead of GPUs.

What belongs here: starting exporters under their service account, and reading their metrics. What does
not: the stub (``testbed.nvml``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from devkit.process import Process
from devkit.waiting import until
from gpushare.contract import EXPORTER_NAME, SYSTEM_NAMESPACE
from testbed.control_plane.api import read_text
from testbed.control_plane.bed import Bed
from testbed.daemons import console_script, rights
from testbed.daemons.agent import CardNode
from testbed.kubelets import BUSYBOX_IMAGE, KubeletNode
from testbed.nvml import NvmlStub

ACCOUNT = "system:serviceaccount:kube-system:gpushare-exporter"
OPS_PORT = 12348
NAME = "exporter"


@dataclass(frozen=True)
class Page:
    """The health and metrics of an exporter at ``url``."""

    url: str

    async def values(self, metric: str, *by: str, **labels: str) -> dict[tuple[str, ...], float]:
        """Scrape one metric: values of the labels ``by`` → value of the sample.

        Samples without these ``labels`` are excluded.
        """
        text = await read_text(f"{self.url}/metrics", timeout_s=10)
        return {
            tuple(sample.labels[each] for each in by): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == metric and labels.items() <= sample.labels.items()
        }


@dataclass(frozen=True)
class ExporterProcess(Page):
    """An exporter running as a process of a node."""

    process: Process


async def grant_exporter(bed: Bed) -> None:
    """Create the account, role and binding of the exporter."""
    await bed.apply(rights.of_exporter())


async def start_exporter(
    node: CardNode,
    flags: Sequence[str] = (),
    *,
    name: str = NAME,
    port: int = OPS_PORT,
    stub: NvmlStub | None = None,
) -> ExporterProcess:
    """Start the exporter on a node and wait until it has taken all samples once.

    ``stub`` replaces the driver of the node; ``name`` and ``port`` are for a second exporter on the node.
    """
    url = f"http://{node.kubelet.address}:{port}"
    argv = exporter_argv(node.bed, [f"--ops-port={port}", *flags])
    env = {**(stub or node.stub).env, "NODE_NAME": node.name}
    return ExporterProcess(url, await node.kubelet.spawn(name, argv, env=env, ready=f"{url}/readyz"))


def exporter_argv(bed: Bed, flags: Sequence[str] = ()) -> list[str]:
    """Return the command line of the exporter."""
    program = console_script("gpushare")
    return [program, "exporter", f"--kubeconfig={bed.kubeconfig_for(ACCOUNT)}", *flags]


async def add_exporter_pod(bed: Bed, kubelet: KubeletNode) -> None:
    """Add a pod with the address of the node, where the metrics API and our commands find the exporter.

    It looks like one of the DaemonSet, and runs nothing.
    """
    await bed.until_service_account(SYSTEM_NAMESPACE)
    spec = {
        "hostNetwork": True,
        "nodeName": kubelet.name,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": BUSYBOX_IMAGE, "command": ["sleep", "100000"]}],
    }
    metadata = {"name": EXPORTER_NAME, "labels": {"app": "gpushare", "component": EXPORTER_NAME}}
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods"
    await bed.api.create(path, {"metadata": metadata, "spec": spec})

    async def has_address() -> bool:
        status = (await bed.api.get(f"{path}/{EXPORTER_NAME}"))["status"]
        return bool(status.get("phase") == "Running" and status.get("podIP") == kubelet.address)

    await until(has_address, "the exporter's pod to run")
