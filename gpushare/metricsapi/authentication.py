"""The door: whom the API server's ConfigMap lets in, and the server's own certificate, both as they are now.

A change of either is served from the next connection on.
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
    """``tls`` is what to serve with. ``front`` is None until the API server has told its front proxy.

    Raises ConfigError where the files cannot be used from the start.
    """

    def __init__(self, cert: str, key: str, *, reload_s: float = _RELOAD_S) -> None:
        self.front: FrontProxy | None = None
        self.problem: str | None = f"ConfigMap {AUTHENTICATION_CONFIG} was not read yet"
        self._renewable = Renewable(optional_client_context(cert, key, ""))
        self.tls = self._renewable.context
        self._cert = cert
        self._key = key
        self._reload_s = reload_s
        self._updated = asyncio.Event()
        self._served: tuple[str, ...] = ()
        self._last_error: str | None = None

    def update(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Take in the ConfigMap; one that cannot be used leaves in place what was told before."""
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
        """Renew until cancelled: at once when the ConfigMap changes, and soon after the files do."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._reload_s):
                    await self._updated.wait()
            self._updated.clear()
            if self.front:
                self._renew(self.front.ca)

    def _renew(self, client_ca: str) -> None:
        """Serve what is there now; what cannot be used changes nothing, and is told once."""
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
