"""Authentication: the front proxy's CA from the API server's ConfigMap, and the server's certificate.

Changes of either apply from the next connection on.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from gpushare.contract import AUTHENTICATION_CONFIG
from gpushare.errors import ConfigError, InvalidRequest
from gpushare.metricsapi.identity import FrontProxy, front_proxy_of
from gpushare.runtime.tls import Renewable, optional_client_context

log = structlog.get_logger()

_RELOAD_S: Final = 10.0


class ServerAuth:
    """``tls`` is the server's context. ``front`` is None until the ConfigMap has been read.

    Raises ConfigError if the files are unusable at the start.
    """

    def __init__(self, cert: str, key: str, *, reload_s: float = _RELOAD_S) -> None:
        self.front: FrontProxy | None = None
        self.problem: str | None = f"ConfigMap {AUTHENTICATION_CONFIG} has not been read yet"
        self._renewable = Renewable(optional_client_context(cert, key, ""))
        self.tls = self._renewable.context
        self._cert = cert
        self._key = key
        self._reload_s = reload_s
        self._updated = asyncio.Event()
        self._served: tuple[str, ...] = ()
        self._last_error: str | None = None

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
        self._updated.set()

    async def run(self) -> None:
        """Reload until cancelled: at once after changes of the ConfigMap, regularly for the files."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._reload_s):
                    await self._updated.wait()
            self._updated.clear()
            if self.front:
                self._renew(self.front.ca)

    def _renew(self, client_ca: str) -> None:
        """Load certificate and CA; errors change nothing and are logged once."""
        try:
            wanted = (client_ca, Path(self._cert).read_text(), Path(self._key).read_text())
            if wanted != self._served:
                self._renewable.current = optional_client_context(self._cert, self._key, client_ca)
                log.info("certificate_served", cert=self._cert)
            self._served, self._last_error = wanted, None
        except (ConfigError, OSError, UnicodeDecodeError) as error:
            if self._last_error != str(error):
                log.warning("certificate_not_renewed", reason=str(error))
            self._last_error = str(error)
