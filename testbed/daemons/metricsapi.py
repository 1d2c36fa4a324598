"""Our metrics API as a process of a testbed, aggregated by the API server.

What belongs here: starting it under its service account, and registering it. What does not: its behaviour.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.ports import free_ports
from devkit.process import Process
from gpushare.contract import METRICS_API_GROUP, METRICS_API_NAME, USAGE_API_GROUP
from testbed.control_plane.aggregation import register_api, service_host
from testbed.control_plane.bed import Bed
from testbed.daemons import console_script, rights

ACCOUNT = f"system:serviceaccount:kube-system:{METRICS_API_NAME}"
PRIORITIES = {
    METRICS_API_GROUP: {"v1beta1": 100, "v1beta2": 200},
    USAGE_API_GROUP: {"v1": 100},
}
NAME = "metrics-api"


@dataclass(frozen=True)
class MetricsApiProcess:
    """A running metrics API; ``url`` serves the API, ``ops_url`` its health and metrics."""

    process: Process
    url: str
    ops_url: str
    cert: Path

    @property
    def path(self) -> str:
        """Path of its group at the API server."""
        return f"/apis/{METRICS_API_GROUP}"


async def start_metrics_api(bed: Bed, flags: Sequence[str] = ()) -> MetricsApiProcess:
    """Grant its rights, start and register it, and return it when the API server forwards requests to it."""
    await bed.apply(rights.of_metrics_api())
    port, ops_port = free_ports(2)
    folder = bed.folder / NAME
    folder.mkdir()
    bed.credentials.server(NAME, [service_host(METRICS_API_NAME), "localhost", "127.0.0.1"]).write(
        folder, "tls"
    )
    ops_url = f"http://127.0.0.1:{ops_port}"
    argv = [
        console_script("gpushare"),
        "metrics-api",
        "--host=127.0.0.1",
        f"--port={port}",
        "--ops-host=127.0.0.1",
        f"--ops-port={ops_port}",
        f"--tls-cert={folder}/tls.crt",
        f"--tls-key={folder}/tls.key",
        f"--kubeconfig={bed.kubeconfig_for(ACCOUNT)}",
        *flags,
    ]
    process = await bed.spawn(NAME, argv, ready=f"{ops_url}/readyz")
    await register_api(bed, METRICS_API_NAME, PRIORITIES, port)
    return MetricsApiProcess(process, f"https://127.0.0.1:{port}", ops_url, folder / "tls.crt")
