"""``gpushare metrics-api``: command line."""

from typing import Final

from gpushare.metricsapi.settings import MetricsApiSettings
from gpushare.runtime.flags import check_api_service, run_daemon
from gpushare.runtime.settings import settings_command

_EXAMPLES: Final = """\b
Examples:
  gpushare metrics-api --tls-cert tls.crt --tls-key tls.key
  gpushare metrics-api --tls-cert tls.crt --tls-key tls.key --exporter-namespace monitoring"""


@settings_command(MetricsApiSettings, epilog=_EXAMPLES)
def command(settings: MetricsApiSettings) -> None:
    """Serve GPU metrics of nodes and pods as custom.metrics.k8s.io for autoscalers."""
    from gpushare.metricsapi.daemon import run

    run_daemon("metrics-api", settings, run, check=check_api_service)
