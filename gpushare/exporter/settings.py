"""The exporter's settings: what can be set, its unit, its default and why."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """Made by the command line (``main``); every field has a flag or an environment variable.

    ``interval_s`` is how often everything is read, ``deadline_s`` how long one source may take, and
    ``stale_s`` how old what is shown may be. ``each_process`` shows processes with their pids.
    ``pod_resources`` is the kubelet's socket of that API, ``proc`` where the host's processes are seen, and
    ``isolation_state`` the folder of the limits and regions of containers.
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
    pod_resources: Path
    proc: Path
    isolation_state: Path
