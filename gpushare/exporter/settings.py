"""The exporter's settings."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """Created by the command line (``main``); every field has a flag or an environment variable.

    ``interval_s`` is the interval between readings, ``deadline_s`` the timeout of one source, ``stale_s`` the
    maximum age of a snapshot. ``each_process`` exports processes with their PIDs, ``dcgm_devices`` the
    metrics that dcgm-exporter has too. ``pod_resources`` is the kubelet's socket, ``proc`` the host's
    ``/proc``, ``isolation_state`` the folder of limits and regions, ``driver_root`` the folder below which
    NVML is (None: in the library path).
    """

    node: str
    kubeconfig: str | None
    ops_host: str
    ops_port: int
    log_level: str
    interval_s: float
    deadline_s: float
    stale_s: float
    each_process: bool
    dcgm_devices: bool
    pod_resources: Path
    proc: Path
    isolation_state: Path
    driver_root: Path | None = None
