"""Our exporter on the real kubelets of a bed, over a stub of NVML: no machine here has a card.

What belongs here: starting exporters under their own service account, and reading what they show. What
does not: what the stub says (``testbed.nvml``).
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from testbed.control_plane.api import read_text
from testbed.control_plane.bed import Bed
from testbed.daemons import rights
from testbed.daemons.agent import CardNode
from testbed.nvml import NvmlStub
from testbed.system.process import Process

ACCOUNT = "system:serviceaccount:kube-system:gpushare-exporter"
OPS_PORT = 12348
NAME = "exporter"


@dataclass(frozen=True)
class Page:
    """What an exporter shows; ``url`` is where its health and metrics are."""

    url: str

    async def values(self, metric: str, *by: str, **labels: str) -> dict[tuple[str, ...], float]:
        """What a scrape shows of a metric: the values of the labels ``by`` to the number.

        Samples without these ``labels`` are left out.
        """
        text = await read_text(f"{self.url}/metrics")
        return {
            tuple(sample.labels[each] for each in by): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == metric and labels.items() <= sample.labels.items()
        }


@dataclass(frozen=True)
class Exporter(Page):
    """An exporter that runs as a process of a node."""

    process: Process


async def grant_exporter(bed: Bed) -> None:
    """Create the exporter's account, role and binding."""
    await bed.apply(rights.of_exporter())


async def start_exporter(
    node: CardNode,
    flags: Sequence[str] = (),
    *,
    name: str = NAME,
    port: int = OPS_PORT,
    stub: NvmlStub | None = None,
) -> Exporter:
    """Start the exporter on a node and wait until it has read everything once.

    ``stub`` is a driver other than the node's; ``name`` and ``port`` are for a second exporter there.
    """
    url = f"http://{node.kubelet.address}:{port}"
    argv = exporter_argv(node.bed, [f"--ops-port={port}", *flags])
    env = {**(stub or node.stub).env, "NODE_NAME": node.name}
    return Exporter(url, await node.kubelet.spawn(name, argv, env=env, ready=f"{url}/readyz"))


def exporter_argv(bed: Bed, flags: Sequence[str] = ()) -> list[str]:
    """The exporter's command line."""
    program = str(Path(sys.executable).with_name("gpushare"))
    return [program, "exporter", f"--kubeconfig={bed.kubeconfig_for(ACCOUNT)}", *flags]
