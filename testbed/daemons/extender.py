"""Our extender as a process of a testbed, under its service account.

What belongs here: starting replicas and configuring the scheduler for them. What does not: the behaviour of
the extender, and the control plane.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devkit.ports import LOOPBACK, free_ports
from devkit.process import Process
from gpushare.contract import (
    EXTENDER_NAME,
    EXTENDER_PREFIX,
    EXTENDER_SERVER_NAME,
    SYSTEM_NAMESPACE,
    TLS_CA,
    TLS_CERT,
    TLS_KEY,
)
from gpushare.kubescheduler.config import ExtenderConfig, Tls, extender_entry
from testbed.control_plane.bed import Bed
from testbed.daemons import console_script, rights

ACCOUNT = "system:serviceaccount:kube-system:gpushare-schd-extender"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases"


@dataclass(frozen=True)
class ExtenderSpec:
    """One replica: its process name, its address and ports, and additional flags."""

    name: str = "extender"
    host: str = LOOPBACK
    port: int = field(default_factory=lambda: free_ports(1)[0])
    ops_port: int = field(default_factory=lambda: free_ports(1)[0])
    flags: Sequence[str] = ()

    @property
    def url(self) -> str:
        """URL for the scheduler."""
        return f"http://{self.host}:{self.port}{EXTENDER_PREFIX}"

    @property
    def ops_url(self) -> str:
        """URL of health and metrics."""
        return f"http://{self.host}:{self.ops_port}"

    def argv(self, kubeconfig: Path) -> list[str]:
        """Return the command line."""
        return [
            console_script("gpushare"),
            "extender",
            f"--host={self.host}",
            f"--port={self.port}",
            f"--ops-host={self.host}",
            f"--ops-port={self.ops_port}",
            f"--kubeconfig={kubeconfig}",
            f"--advertise-address={self.host}:{self.port}",
            "--log-level=info",
            *self.flags,
        ]


def component_config(url: str, *, legacy: bool = False, certificates: Path | None = None) -> dict[str, Any]:
    """Return the extender entry of a KubeSchedulerConfiguration v1, or of a Policy.

    ``certificates`` is the folder with the files of the Secret of the scheduler, for mutual TLS.
    """
    tls = None
    if certificates:
        ca, cert, key = (str(certificates / name) for name in (TLS_CA, TLS_CERT, TLS_KEY))
        tls = Tls(ca, cert, key, EXTENDER_SERVER_NAME)
    return extender_entry(ExtenderConfig(url, tls=tls), legacy=legacy)


async def grant(bed: Bed, *, new: bool = False, evicts: bool = False) -> None:
    """Create the account, roles and bindings of the extender.

    With ``new``, no Lease exists, and the first extender waits its full time before it binds. Without, the
    Lease exists as a stopped extender has released it. The extender may use every Lease. With ``evicts`` it
    may evict pods.
    """
    await bed.apply(rights.of_extender(any_lease=True, evicts=evicts))
    if not new:
        await create_released_lease(bed, EXTENDER_NAME)


async def create_released_lease(bed: Bed, name: str) -> None:
    """Create a Lease as a stopped extender has released it: the next one binds without a wait."""
    await bed.api.create(
        LEASES,
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 1},
        },
    )


async def start_extender(bed: Bed, spec: ExtenderSpec, kubeconfig: Path | None = None) -> Process:
    """Start a replica and wait until it is ready."""
    path = kubeconfig or bed.kubeconfig_for(ACCOUNT)
    return await bed.spawn(spec.name, spec.argv(path), ready=f"{spec.ops_url}/readyz")
