"""HTTP to another replica of the extender: a bind passed on to the one that may bind."""

import ssl
from types import TracebackType
from typing import Final, Self

import aiohttp

from gpushare.errors import ApiError

FORWARDED_HEADER: Final = "X-Gpushare-Forwarded"
"""Marks a bind that another replica passed on, so that it is never passed on twice."""


class Peers:
    """A client for other replicas. Use as an async context manager."""

    def __init__(self, tls: ssl.SSLContext | None = None, *, timeout_s: float = 4.0) -> None:
        self._scheme = "https" if tls else "http"
        self._tls = tls
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=1.0)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=self._timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._session.close()

    async def post(self, address: str, path: str, body: bytes) -> bytes:
        """The body of the peer's 200 answer. Raises ApiError for anything else."""
        if self._session is None:
            raise ApiError("peer client is not open")
        url = f"{self._scheme}://{address}{path}"
        headers = {"Content-Type": "application/json", FORWARDED_HEADER: "1"}
        try:
            async with self._session.post(url, data=body, headers=headers, ssl=self._tls or True) as response:
                answer = await response.read()
                if not response.ok:
                    raise ApiError(f"{url}: HTTP {response.status}", status=response.status)
                return answer
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ApiError(f"{url}: {str(error) or type(error).__name__}", reason="Unreachable") from error
