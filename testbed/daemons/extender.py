"""Our extender as a process of a bed: under its own service account, with its own rights.

What belongs here: starting replicas and pointing the scheduler at them. What does not: what they
decide, and anything about the control plane itself.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gpushare.contract import EXTENDER_NAME, EXTENDER_PREFIX, SYSTEM_NAMESPACE
from gpushare.kubescheduler.config import ExtenderConfig, extender_entry
from testbed.control_plane.bed import Bed
from testbed.daemons import rights
from testbed.system.ports import free_ports
from testbed.system.process import Process

ACCOUNT = "system:serviceaccount:kube-system:gpushare-schd-extender"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases"


@dataclass(frozen=True)
class ExtenderSpec:
    """One replica: its name among the bed's processes, its ports, and further flags."""

    name: str = "extender"
    port: int = field(default_factory=lambda: free_ports(1)[0])
    ops_port: int = field(default_factory=lambda: free_ports(1)[0])
    flags: Sequence[str] = ()

    @property
    def url(self) -> str:
        """Where the scheduler finds it."""
        return f"http://127.0.0.1:{self.port}{EXTENDER_PREFIX}"

    @property
    def ops_url(self) -> str:
        """Where health and metrics are."""
        return f"http://127.0.0.1:{self.ops_port}"

    def argv(self, kubeconfig: Path) -> list[str]:
        """The command line."""
        return [
            str(Path(sys.executable).with_name("gpushare")),
            "extender",
            "--host=127.0.0.1",
            f"--port={self.port}",
            "--ops-host=127.0.0.1",
            f"--ops-port={self.ops_port}",
            f"--kubeconfig={kubeconfig}",
            f"--advertise-address=127.0.0.1:{self.port}",
            "--log-level=info",
            *self.flags,
        ]


def component_config(url: str, *, legacy: bool = False) -> dict[str, Any]:
    """The extender's entry in a KubeSchedulerConfiguration v1, or in a Policy."""
    return extender_entry(ExtenderConfig(url), legacy=legacy)


async def grant(bed: Bed, *, new: bool = False) -> None:
    """Create the extender's account, roles and bindings.

    ``new``: no extender has ever run in the cluster, so the first one waits in full before it binds.
    Else the Lease is there as one leaves it that was stopped.
    """
    await bed.apply(rights.of_extender())
    if not new:
        await bed.api.create(LEASES, _LEASE_GIVEN_BACK)


_LEASE_GIVEN_BACK: Final = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": EXTENDER_NAME, "namespace": SYSTEM_NAMESPACE},
    "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 1},
}


async def start_extender(bed: Bed, spec: ExtenderSpec, kubeconfig: Path | None = None) -> Process:
    """Start a replica and wait until it is ready."""
    path = kubeconfig or bed.kubeconfig_for(ACCOUNT)
    return await bed.spawn(spec.name, spec.argv(path), ready=f"{spec.ops_url}/readyz")
