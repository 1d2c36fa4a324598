"""The settings of the board in a cluster."""

from dataclasses import dataclass
from typing import Annotated, Any

import click

from gpushare.contract import BOARD_OPS_PORT, BOARD_PORT
from gpushare.model.urls import is_http_url
from gpushare.runtime.listener import ANY_ADDRESS
from gpushare.runtime.settings import (
    Kubeconfig,
    Level,
    ListeningPort,
    LogLevel,
    OpsHost,
    OpsPort,
    Setting,
    TlsCert,
    TlsKey,
    setting,
)


class _HttpUrl(click.ParamType[str]):
    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Fails for anything else; empty is none."""
        if value and not is_http_url(str(value)):
            self.fail(f"{value!r} is not a URL such as http://127.0.0.1:9090", param, ctx)
        return str(value)


PrometheusUrl = Annotated[
    str,
    _HttpUrl(),
    Setting(help="URL of the Prometheus with the recording rules of this project; empty: no history."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSettings:
    """Settings of the board in a cluster."""

    host: str = setting(ANY_ADDRESS, help="Address for browsers; :: is any.")
    port: ListeningPort = setting(BOARD_PORT, help="Port for browsers; 0 selects a free port.", env="PORT")
    tls_cert: TlsCert = ""
    tls_key: TlsKey = ""
    ops_host: OpsHost = ANY_ADDRESS
    ops_port: OpsPort = BOARD_OPS_PORT
    prometheus_url: PrometheusUrl = ""
    prometheus_cluster: str = setting(
        "",
        help="Value of the label cluster of the series of this cluster; empty: there is one cluster.",
    )
    kubeconfig: Kubeconfig = None
    log_level: Level = LogLevel.INFO
