"""prometheus-adapter as a process of a testbed, aggregated by the API server: custom metrics from Prometheus.

What belongs here: starting the adapter under its service account. What does not: its rules
(``gpushare.monitoring.adapter``), and our metrics API, which replaces it.
"""

from importlib.resources import files
from pathlib import Path

from devkit.ports import LOOPBACK, free_ports
from devkit.process import Process
from testbed.control_plane.aggregation import register_api, service_host
from testbed.control_plane.bed import Bed
from testbed.daemons.prometheus import PrometheusServer
from testbed.programs import build

NAME = "prometheus-adapter"
GROUP = "custom.metrics.k8s.io"
_ACCOUNT = f"system:serviceaccount:kube-system:{NAME}"
_VERSIONS = {"v1beta1": 100, "v1beta2": 200}


async def start_adapter(bed: Bed, prometheus: PrometheusServer, config: Path) -> Process:
    """Start the adapter with a file of rules, and return it when the API server serves its group.

    It discovers new series every second, and keeps those of the last minute.
    """
    await bed.apply(files("testbed").joinpath("manifests/prometheus-adapter-rbac.yaml").read_text())
    tools = await build.ensure([NAME])
    folder = bed.folder / NAME
    folder.mkdir()
    bed.credentials.server(NAME, [service_host(NAME)]).write(folder, NAME)
    (port,) = free_ports(1)
    kubeconfig = bed.kubeconfig_for(_ACCOUNT)
    argv = [
        str(tools[NAME].path),
        f"--config={config}",
        f"--prometheus-url={prometheus.url}",
        "--metrics-relist-interval=1s",
        "--metrics-max-age=1m",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={folder}/{NAME}.crt",
        f"--tls-private-key-file={folder}/{NAME}.key",
        f"--lister-kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
    ]
    process = await bed.spawn(NAME, argv)
    await register_api(bed, NAME, {GROUP: _VERSIONS}, port)
    return process
