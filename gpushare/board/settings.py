"""The settings of the board in a cluster."""

from dataclasses import dataclass

from gpushare.contract import BOARD_OPS_PORT, BOARD_PORT
from gpushare.runtime.listener import ANY_ADDRESS
from gpushare.runtime.settings import (
    Kubeconfig,
    Level,
    ListeningPort,
    LogLevel,
    OpsHost,
    OpsPort,
    TlsCert,
    TlsKey,
    setting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSettings:
    """Settings of the board in a cluster."""

    host: str = setting(ANY_ADDRESS, help="Address for browsers; :: is any.")
    port: ListeningPort = setting(BOARD_PORT, help="Port for browsers; 0 selects a free port.", env="PORT")
    tls_cert: TlsCert = ""
    tls_key: TlsKey = ""
    ops_host: OpsHost = ANY_ADDRESS
    ops_port: OpsPort = BOARD_OPS_PORT
    kubeconfig: Kubeconfig = None
    log_level: Level = LogLevel.INFO
