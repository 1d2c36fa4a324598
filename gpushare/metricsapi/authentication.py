"""Authentication: the front proxy's CA from the API server's ConfigMap, and the server's certificate.

Changes of either apply from the next connection on.
"""

from collections.abc import Mapping

import structlog

from gpushare.contract import AUTHENTICATION_CONFIG
from gpushare.errors import InvalidRequest
from gpushare.metricsapi.identity import FrontProxy, front_proxy_of
from gpushare.runtime.tls import RELOAD_S, ServerTls

log = structlog.get_logger()


class ServerAuth:
    """``tls`` accepts clients of the front proxy's CA. ``front`` is None until the ConfigMap has been read.

    Raises ConfigError if the files are unusable at the start.
    """

    def __init__(self, cert: str, key: str, *, reload_s: float = RELOAD_S) -> None:
        self.front: FrontProxy | None = None
        self.problem: str | None = f"ConfigMap {AUTHENTICATION_CONFIG} has not been read yet"
        self.tls = ServerTls(cert, key, lambda: self.front.ca if self.front else "", reload_s=reload_s)

    def update(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Apply the ConfigMap; an invalid one leaves the previous front proxy in place."""
        try:
            self.front = front_proxy_of(configs.get(AUTHENTICATION_CONFIG, {}))
        except InvalidRequest as error:
            if self.problem != str(error):
                log.warning("front_proxy_unknown", reason=str(error))
            self.problem = None if self.front else str(error)
            return
        self.problem = None
        self.tls.reload()
