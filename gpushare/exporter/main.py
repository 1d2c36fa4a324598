"""``gpushare exporter``: command line and settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from gpushare.contract import EXPORTER_PORT, ISOLATION_STATE, POD_RESOURCES_SOCKET
from gpushare.errors import ConfigError
from gpushare.exporter.settings import ExporterSettings
from gpushare.runtime.flags import DRIVER_ROOT, NODE_NAME, SECONDS, daemon_options, node_name_of, run_daemon

_EXAMPLES: Final = """\b
Examples:
  gpushare exporter --node-name gpu-1 --kubeconfig /etc/kubernetes/kubelet.conf
  gpushare exporter --node-name gpu-1 --interval-seconds 5 --no-dcgm-devices"""


@click.command(
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]}, epilog=_EXAMPLES
)
@NODE_NAME
@click.option("--interval-seconds", type=SECONDS, default=15.0, help="Seconds between readings.")
@click.option("--deadline-seconds", type=SECONDS, default=5.0, help="Timeout of one source, in seconds.")
@click.option(
    "--stale-seconds",
    type=SECONDS,
    default=60.0,
    help="Maximum age of exported values, in seconds.",
)
@click.option(
    "--process-ids",
    is_flag=True,
    help="Export DCGM_CUSTOM_PROCESS_* for each process, with a label pid: many short-lived series.",
)
@click.option(
    "--dcgm-devices/--no-dcgm-devices",
    default=True,
    help="Export DCGM_FI_DEV_*. NVIDIA's dcgm-exporter has them too: beside it, sums would count GPUs twice.",
)
@click.option(
    "--pod-resources-socket",
    type=click.Path(path_type=Path),
    default=Path(POD_RESOURCES_SOCKET),
    help="The kubelet's PodResources socket.",
)
@click.option(
    "--proc-root",
    type=click.Path(path_type=Path),
    default=Path("/proc"),
    help="Mount of the host's /proc; with hostPID it is /proc.",
)
@DRIVER_ROOT
@click.option(
    "--isolation-state",
    type=click.Path(path_type=Path),
    default=Path(ISOLATION_STATE),
    help="Directory of the containers' limits and regions; may be missing.",
)
@daemon_options(EXPORTER_PORT)
def command(**flags: Any) -> None:
    """Export metrics of this node's GPUs and of the containers on them."""
    from gpushare.exporter.daemon import run

    run_daemon("exporter", lambda: settings_of(flags), run)


def settings_of(flags: Mapping[str, Any]) -> ExporterSettings:
    """Settings from parsed flags. Raises ConfigError for invalid settings."""
    interval_s, deadline_s, stale_s = (flags[f"{name}_seconds"] for name in ("interval", "deadline", "stale"))
    slowest_s = interval_s + 2 * deadline_s
    if not 0 < slowest_s < stale_s:
        raise ConfigError(
            f"--stale-seconds={stale_s:g} must exceed --interval-seconds plus twice --deadline-seconds "
            f"({slowest_s:g}): otherwise one slow round removes all series"
        )
    return ExporterSettings(
        node=node_name_of(flags),
        kubeconfig=flags["kubeconfig"],
        ops_host=flags["ops_host"],
        ops_port=flags["ops_port"],
        log_level=flags["log_level"],
        interval_s=interval_s,
        deadline_s=deadline_s,
        stale_s=stale_s,
        each_process=flags["process_ids"],
        dcgm_devices=flags["dcgm_devices"],
        pod_resources=flags["pod_resources_socket"],
        proc=flags["proc_root"],
        isolation_state=flags["isolation_state"],
        driver_root=flags["driver_root"],
    )
