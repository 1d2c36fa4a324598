"""``gpushare exporter``: command line."""

from typing import Final

from gpushare.exporter.settings import ExporterSettings, check_durations
from gpushare.runtime.flags import check_node_name, run_daemon
from gpushare.runtime.settings import settings_command

_EXAMPLES: Final = """\b
Examples:
  gpushare exporter --node-name gpu-1 --kubeconfig /etc/kubernetes/kubelet.conf
  gpushare exporter --node-name gpu-1 --interval-seconds 5 --no-dcgm-devices"""


@settings_command(ExporterSettings, epilog=_EXAMPLES)
def command(settings: ExporterSettings) -> None:
    """Export metrics of this node's GPUs and of the containers on them."""
    from gpushare.exporter.daemon import run

    run_daemon("exporter", settings, run, check=check)


def check(settings: ExporterSettings) -> None:
    """Raises ConfigError for settings that cannot work."""
    check_node_name(settings)
    check_durations(settings)
