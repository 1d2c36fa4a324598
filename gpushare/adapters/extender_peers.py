"""HTTP client for other extender replicas: followers forward binds to the leader."""

import ssl
from collections.abc import Callable
from typing import Final, Self

import aiohttp

from gpushare.adapters.http_errors import failure_text
from gpushare.contract import EXTENDER_SERVER_NAME
from gpushare.errors import ApiError

FORWARDED_HEADER: Final = "X-Gpushare-Forwarded"
"""Marks a forwarded bind, so that it is never forwarded twice."""


class Peers:
    """HTTP client, an async context manager. ``tls`` returns the current context, None for HTTP.

    With TLS, a peer must prove the name of the extender: it is addressed by IP, and ``client_ca`` may be the
    CA of a cluster, which signs certificates for other servers too.
    """

    _session: aiohttp.ClientSession

    def __init__(
        self, tls: Callable[[], ssl.SSLContext | None] = lambda: None, *, timeout_s: float = 4.0
    ) -> None:
        self._tls = tls
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=1.0)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=self._timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def post(self, address: str, path: str, body: bytes) -> bytes:
        """POST and return the body of the peer's 2xx response. Raises ApiError for anything else."""
        tls = self._tls()
        url = f"{'https' if tls else 'http'}://{address}{path}"
        headers = {"Content-Type": "application/json", FORWARDED_HEADER: "1"}
        try:
            async with self._session.post(
                url,
                data=body,
                headers=headers,
                ssl=tls or True,
                server_hostname=EXTENDER_SERVER_NAME if tls else None,
            ) as response:
                answer = await response.read()
                if not response.ok:
                    raise ApiError(f"{url}: HTTP {response.status}", status=response.status)
                return answer
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ApiError(f"{url}: {failure_text(error)}", reason="Unreachable") from error
