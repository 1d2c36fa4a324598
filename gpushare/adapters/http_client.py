"""HTTP client for exporters and Prometheus, with a deadline and a size limit."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import Final, Self

import aiohttp

from gpushare import __version__
from gpushare.adapters.http_errors import failure_text
from gpushare.adapters.proxies import proxy_of
from gpushare.errors import SourceError

_CONNECT_TIMEOUT_S: Final = 2.0
_MAX_BYTES: Final = 64 * 2**20
_LITTLE_BYTES: Final = 2**14
"""Of a body that is not read yet."""
_MAX_CONNECTIONS: Final = 64
_MAX_ERROR_TEXT: Final = 300


class HttpClient:
    """HTTP client. Use as an async context manager.

    ``environ`` has the proxies to use (HTTP_PROXY, NO_PROXY …); without it, as in a cluster, there is none.
    """

    _session: aiohttp.ClientSession

    def __init__(
        self,
        *,
        timeout_s: float,
        environ: Mapping[str, str] | None = None,
        connections: int = _MAX_CONNECTIONS,
    ) -> None:
        self._environ = environ or {}
        self._timeout_s = timeout_s
        self._connections = connections
        self._connect_s = min(_CONNECT_TIMEOUT_S, timeout_s)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=self._connect_s),
            headers={"User-Agent": f"gpushare/{__version__}"},
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, url: str) -> bytes:
        """Return the body of a 200 response.

        Raises SourceError for anything else, and ConfigError for a proxy that cannot be used.
        """
        return await self._request("GET", url)

    async def post(self, url: str, form: Mapping[str, str]) -> bytes:
        """POST a form and return the body of a 200 response. Raises as ``get`` does."""
        return await self._request("POST", url, form)

    @asynccontextmanager
    async def opened(self, url: str) -> AsyncIterator[Callable[[], Awaitable[bytes]]]:
        """Enter once a response has begun, with what reads its body. Raises as ``get`` does.

        The timeout counts for the beginning, and again for the body. Between them a response takes a
        connection and little memory, for as long as the caller waits.
        """
        proxy = proxy_of(url, self._environ)
        own_timeouts = aiohttp.ClientTimeout(total=None, sock_connect=self._connect_s)
        with _source_errors(url):
            async with asyncio.timeout(self._timeout_s):
                response = await self._session.get(
                    url,
                    allow_redirects=False,
                    proxy=proxy,
                    timeout=own_timeouts,
                    read_bufsize=_LITTLE_BYTES,
                )

        async def body() -> bytes:
            with _source_errors(url):
                async with asyncio.timeout(self._timeout_s):
                    return await _good_body(url, response)

        try:
            yield body
        finally:
            response.release()

    async def _request(self, method: str, url: str, form: Mapping[str, str] | None = None) -> bytes:
        proxy = proxy_of(url, self._environ)
        with _source_errors(url):
            async with self._session.request(
                method, url, data=form, allow_redirects=False, proxy=proxy
            ) as response:
                return await _good_body(url, response)


@contextmanager
def _source_errors(url: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise SourceError(f"{url}: no answer in time") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise SourceError(f"{url}: {failure_text(error)}") from error


async def _good_body(url: str, response: aiohttp.ClientResponse) -> bytes:
    body = await _at_most(response, _MAX_BYTES)
    if response.status != HTTPStatus.OK:
        text = body[:_MAX_ERROR_TEXT].decode(errors="replace")
        raise SourceError(f"{url}: HTTP {response.status} {text}")
    return body


async def _at_most(response: aiohttp.ClientResponse, size: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > size:
            raise SourceError(f"{response.url}: larger than {size // 2**20} MiB")
    return bytes(body)
