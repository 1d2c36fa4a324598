"""The settings of the exporter, and which of them exclude each other."""

from dataclasses import dataclass
from pathlib import Path

from gpushare.contract import EXPORTER_PORT, ISOLATION_STATE, POD_RESOURCES_SOCKET
from gpushare.errors import ConfigError
from gpushare.runtime.listener import ANY_ADDRESS
from gpushare.runtime.settings import (
    DriverRoot,
    Kubeconfig,
    Level,
    LogLevel,
    NodeName,
    OpsHost,
    OpsPort,
    Seconds,
    setting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterSettings:
    """Settings of the exporter."""

    node_name: NodeName = ""
    interval_seconds: Seconds = setting(15.0, help="Seconds between readings.")
    deadline_seconds: Seconds = setting(5.0, help="Timeout of one source, in seconds.")
    stale_seconds: Seconds = setting(60.0, help="Maximum age of exported values, in seconds.")
    process_ids: bool = setting(
        default=False,
        help="Export DCGM_CUSTOM_PROCESS_* for each process, with a label pid: many short-lived series.",
    )
    dcgm_devices: bool = setting(
        default=True,
        help="Export DCGM_FI_DEV_*. Switch it off beside NVIDIA's dcgm-exporter, which exports them too: "
        "sums would count GPUs twice.",
    )
    pod_resources_socket: Path = setting(
        Path(POD_RESOURCES_SOCKET), help="The kubelet's PodResources socket."
    )
    proc_root: Path = setting(Path("/proc"), help="Mount of the host's /proc; with hostPID it is /proc.")
    driver_root: DriverRoot = None
    isolation_state: Path = setting(
        Path(ISOLATION_STATE), help="Directory of the containers' limits and regions; may be missing."
    )
    ops_host: OpsHost = ANY_ADDRESS
    ops_port: OpsPort = EXPORTER_PORT
    kubeconfig: Kubeconfig = None
    log_level: Level = LogLevel.INFO


def check_durations(settings: ExporterSettings) -> None:
    """Raises ConfigError for durations with which one slow round would remove all series."""
    slowest_s = settings.interval_seconds + 2 * settings.deadline_seconds
    if slowest_s >= settings.stale_seconds:
        raise ConfigError(
            f"--stale-seconds={settings.stale_seconds:g} must exceed --interval-seconds plus twice "
            f"--deadline-seconds ({slowest_s:g}): otherwise one slow round removes all series"
        )
