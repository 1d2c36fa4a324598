"""``gpushare metrics-api``: command line and settings."""

from collections.abc import Mapping
from typing import Any, Final

import click

from gpushare.contract import (
    EXPORTER_NAME,
    EXPORTER_PORT,
    METRICS_API_OPS_PORT,
    METRICS_API_PORT,
    SYSTEM_NAMESPACE,
)
from gpushare.errors import ConfigError, InvalidRequest
from gpushare.metricsapi.settings import MetricsApiSettings
from gpushare.model.selector import Selector, parse_selector
from gpushare.runtime.flags import (
    PORT,
    SECONDS,
    api_service_options,
    check_api_service,
    daemon_options,
    run_daemon,
)

_EXAMPLES: Final = """\b
Examples:
  gpushare metrics-api --tls-cert tls.crt --tls-key tls.key
  gpushare metrics-api --tls-cert tls.crt --tls-key tls.key --exporter-namespace monitoring"""


@click.command(
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]}, epilog=_EXAMPLES
)
@api_service_options(METRICS_API_PORT)
@click.option("--exporter-namespace", default=SYSTEM_NAMESPACE, help="Namespace of the exporter's pods.")
@click.option(
    "--exporter-selector", default=f"component={EXPORTER_NAME}", help="Labels of the exporter's pods."
)
@click.option("--exporter-port", type=PORT, default=EXPORTER_PORT, help="Metrics port of the exporters.")
@click.option("--deadline-seconds", type=SECONDS, default=5.0, help="Timeout of one scrape, in seconds.")
@click.option("--keep-seconds", type=SECONDS, default=5.0, help="Seconds for which values are cached.")
@daemon_options(METRICS_API_OPS_PORT)
def command(**flags: Any) -> None:
    """Serve GPU metrics of nodes and pods as custom.metrics.k8s.io for autoscalers."""
    from gpushare.metricsapi.daemon import run

    run_daemon("metrics-api", lambda: settings_of(flags), run)


def settings_of(flags: Mapping[str, Any]) -> MetricsApiSettings:
    """Settings from parsed flags. Raises ConfigError for invalid settings."""
    check_api_service(flags)
    return MetricsApiSettings(
        host=flags["host"],
        port=flags["port"],
        ops_host=flags["ops_host"],
        ops_port=flags["ops_port"],
        kubeconfig=flags["kubeconfig"],
        log_level=flags["log_level"],
        tls_cert=flags["tls_cert"],
        tls_key=flags["tls_key"],
        exporters=_exporters(flags["exporter_selector"]),
        exporter_namespace=flags["exporter_namespace"],
        exporter_port=flags["exporter_port"],
        deadline_s=flags["deadline_seconds"],
        keep_s=flags["keep_seconds"],
    )


def _exporters(text: str) -> Selector:
    try:
        selector = parse_selector(text)
    except InvalidRequest as error:
        raise ConfigError(f"--exporter-selector: {error}") from error
    if not selector.terms:
        raise ConfigError("--exporter-selector is empty: every pod would count as an exporter")
    return selector
