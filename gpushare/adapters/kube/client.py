"""HTTP client for the Kubernetes API: requests with deadlines, errors as ApiError.

It handles verbs, paths and status codes, not objects.
"""

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter
from msgspec.structs import replace

from gpushare import __version__
from gpushare.adapters.http_errors import failure_text
from gpushare.adapters.kube.access import ApiAccess, Pem
from gpushare.errors import FENCED, ApiError, ConfigError
from gpushare.ports import Fence

MAX_CONNECTIONS = 256

_CONNECT_TIMEOUT_S = 3.0
_CREDENTIALS_S = 15.0
"""For the credentials of a stream. A request gets them within its own timeout."""
_LEAST_S = 0.001
"""aiohttp reads a timeout of 0 as none."""
_UNACKED_S = 3.0
_RESET = struct.pack("ii", 1, 0)
_IDLE_S = 15
_PROBE_S = 5
_JSON = "application/json"
_CONTENT = {"PATCH": "application/merge-patch+json"}
_APPLY = "application/apply-patch+yaml"
_JSON_PATCH = "application/json-patch+json"
"""JSON is YAML, and older API servers know no other name."""
_USER_AGENT = f"gpushare/{__version__}"
_CA_S = 60.0
"""Between two looks at the file of the CA. After a failed handshake the next request reads it."""
TOO_LARGE = "ResponseTooLarge"
"""The reason of the error for a body with more bytes than the caller takes."""
_MAX_ERROR_TEXT = 500
_READ_BUFFER = 2**21
"""Watch events can exceed aiohttp's default."""
_MAX_RETRY_AFTER_S = 60.0
"""The API server asks for some seconds. A proxy that asks for an hour must not stop a watch for an hour."""
_NOT_PROXIED = "address not allowed"
"""The whole message of an API server that forwards no request to the address of a node."""
_NOT_PROXIED_CAUSE = (
    "the node has a loopback or link-local address, to which the API server forwards no requests; start its "
    "kubelet with --node-ip and another address"
)

_encode = msgspec.json.Encoder().encode
_clock = time.monotonic


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _ErrorStatus(msgspec.Struct):
    """The fields of the API's Status object that we report."""

    message: str = ""
    reason: str = ""
    details: _Details | None = None

    @property
    def specific_reason(self) -> str:
        """The reason of the first cause, such as ``NamespaceTerminating``, else that of the status."""
        causes = (self.details and self.details.causes) or ()
        return next((cause.reason for cause in causes if cause.reason), self.reason)


class KubeClient:
    """A connection pool to one API server. Use as an async context manager.

    ``unacked_s`` is how long the kernel repeats data that the API server does not acknowledge. Raises
    ConfigError if the TLS files are unusable.
    """

    def __init__(self, access: ApiAccess, *, unacked_s: float = _UNACKED_S) -> None:
        self._access = access
        self._unacked_s = unacked_s
        self._ca = _content(access.ca)
        self._tls = access.ssl_context()
        self._look_at_ca_at = _clock() + _CA_S
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session:
            await self._session.close()

    @property
    def host(self) -> str:
        """The API server's URL."""
        return self._access.host

    async def request(
        self,
        method: str,
        path: str,
        *,
        timeout_s: float,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | list[Mapping[str, Any]] | None = None,
        fence: Fence | None = None,
        is_apply: bool = False,
    ) -> bytes:
        """Return the body of a 2xx response. Raises ApiError for any other response, or on timeout.

        A PATCH is a merge patch, a list of operations a JSON patch, and with ``is_apply`` it is a server-side
        apply, whose query names the manager.
        ``fence`` is called once the connection is up, right before the first byte: if it refuses, a request
        with a body is not sent (``ApiError.unsent``).
        """
        data = None if body is None else _Body(_encode(body), fence)
        content = _APPLY if is_apply else _content_type(method, body)
        async with self._timely(method, path, timeout_s, query, data, content) as response:
            with _api_errors(self.host, method, path):
                return await response.read()

    async def get_up_to(
        self, most_bytes: int, path: str, *, timeout_s: float, query: Mapping[str, str] | None = None
    ) -> bytes:
        """Return the body of a GET. Raises ApiError as ``request`` does; TOO_LARGE is that of more bytes."""
        async with self._timely("GET", path, timeout_s, query) as response:
            with _api_errors(self.host, "GET", path):
                return await _read_up_to(most_bytes, response, f"GET {path}")

    @asynccontextmanager
    async def _timely(
        self,
        method: str,
        path: str,
        timeout_s: float,
        query: Mapping[str, str] | None,
        body: "_Body | None" = None,
        content_type: str = _JSON,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A response that is complete within the timeout, with the credentials."""
        ends_at = _clock() + timeout_s
        # Credentials may come from a slow plugin, within the same timeout.
        headers = await self._headers(method, path, timeout_s) | {"Content-Type": content_type}
        left_s = max(_LEAST_S, ends_at - _clock())
        timeout = aiohttp.ClientTimeout(total=left_s, sock_connect=min(_CONNECT_TIMEOUT_S, left_s))
        async with self._response(method, path, timeout, headers, query, body) as response:
            yield response

    async def stream(
        self, path: str, *, silence_s: float, query: Mapping[str, str] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of a streamed response, an empty one first, until the server ends it.

        Raises ApiError after ``silence_s`` without data or if the connection breaks.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=silence_s)
        headers = await self._headers("GET", path, _CREDENTIALS_S)
        async with self._response("GET", path, timeout, headers, query) as response:
            # So that the caller knows that it is connected, however long nothing happens.
            yield b""
            with _api_errors(self.host, "GET", path):
                async for chunk in response.content.iter_any():
                    yield chunk

    @asynccontextmanager
    async def _response(
        self,
        method: str,
        path: str,
        deadlines: aiohttp.ClientTimeout,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None,
        body: "_Body | None" = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        url = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        with _api_errors(self.host, method, path, body):
            try:
                response = await self._opened().request(
                    method,
                    url,
                    headers=[*headers.items(), *self._access.impersonation],
                    data=body,
                    timeout=deadlines,
                    proxy=self._access.proxy,
                    server_hostname=self._access.tls_server_name,
                    ssl=self._context(),
                )
            except aiohttp.ClientSSLError:
                # The CA may have been rotated: its file is read before the next request.
                self._look_at_ca_at = 0.0
                raise
        try:
            if not response.ok:
                # For the next request: this one is not repeated, because it may be a bind.
                if response.status == HTTPStatus.UNAUTHORIZED:
                    self._renew_credentials()
                with _api_errors(self.host, method, path):
                    text = await response.read()
                raise _refused(response, text, method, path)
            yield response
        finally:
            # A watch that is abandoned must not keep its connection; a fully read response has released it.
            if not response.content.at_eof():
                response.close()
            response.release()

    def _context(self) -> ssl.SSLContext:
        """The TLS context, which is made again when the file of the CA has changed."""
        if _clock() >= self._look_at_ca_at:
            self._look_at_ca_at = _clock() + _CA_S
            found = _content(self._access.ca)
            if found not in (None, self._ca):
                with suppress(ConfigError):  # half written: it is read again
                    self._tls, self._ca = self._access.ssl_context(), found
        return self._tls

    def _renew_credentials(self) -> None:
        """Use those of now for later requests, such as the certificate that the kubelet has renewed."""
        self._access.rejected()
        if isinstance(self._access.cert, Path):
            with suppress(ConfigError):  # half written: the next rejection reads it again
                self._tls = self._access.ssl_context()

    def _opened(self) -> aiohttp.ClientSession:
        """Return the pool. The official client's layer above it costs a quarter more per request.

        Without ``trust_env``: aiohttp would look for a .netrc file, in a thread, at every request.
        """
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=MAX_CONNECTIONS, socket_factory=self._socket)
            self._session = aiohttp.ClientSession(connector=connector, read_bufsize=_READ_BUFFER)
        return self._session

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """A socket that drops unacknowledged data, and resets its connection when it is closed.

        Otherwise the kernel would go on sending a request that its caller has given up, even after the end
        of the process. A peer that does not answer a probe, after some seconds without data, is lost.
        """
        family, kind, protocol, _, _ = address
        connection = socket.socket(family, kind, protocol)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        timeouts = {
            "TCP_USER_TIMEOUT": round(self._unacked_s * 1000),
            "TCP_KEEPIDLE": _IDLE_S,
            "TCP_KEEPINTVL": _PROBE_S,
        }
        for name, value in timeouts.items():
            if option := getattr(socket, name, None):  # not every system has all of them
                connection.setsockopt(socket.IPPROTO_TCP, option, value)
        return connection

    async def _headers(self, method: str, path: str, within_s: float) -> dict[str, str]:
        # Compressing a list of 50,000 pods costs both sides more than sending it.
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": _USER_AGENT,
        }
        try:
            async with asyncio.timeout(within_s):
                authorization = await self._access.authorization()
        except TimeoutError as error:
            text = f"{method} {self.host}{path}: no credentials in time from {self._access.credentials}"
            raise ApiError(text, reason="Timeout", unsent=True) from error
        return headers | ({"Authorization": authorization} if authorization else {})


def _content_type(method: str, body: object) -> str:
    return _JSON_PATCH if isinstance(body, list) else _CONTENT.get(method, _JSON)


def _content(ca: Pem | None) -> bytes | None:
    """The content of the file of a CA; None without a file, or if it cannot be read now."""
    with suppress(OSError):
        return ca.read_bytes() if isinstance(ca, Path) else None
    return None


async def _read_up_to(most: int, response: aiohttp.ClientResponse, what: str) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size > most:
            raise ApiError(f"{what}: the response has more than {most} bytes", reason=TOO_LARGE)
    return b"".join(parts)


def _refused(response: aiohttp.ClientResponse, text: bytes, method: str, path: str) -> ApiError:
    what = f"{method} {path}: HTTP {response.status}"
    try:
        status = msgspec.json.decode(text, type=_ErrorStatus)
    except msgspec.DecodeError:
        status = _ErrorStatus(message=f"{what}: {text.decode(errors='replace')}".removesuffix(": "))
    if response.status == HTTPStatus.UNAUTHORIZED and status.message == HTTPStatus.UNAUTHORIZED.phrase:
        status = replace(status, message=f"{what}: the API server does not accept these credentials")
    if status.message == _NOT_PROXIED:
        status = replace(status, message=f"{what}: {_NOT_PROXIED}: {_NOT_PROXIED_CAUSE}")
    return ApiError(
        status.message[:_MAX_ERROR_TEXT] or what,
        status=response.status,
        reason=status.specific_reason,
        retry_after_s=_retry_after_s(response.headers.get("Retry-After", "")),
    )


def _retry_after_s(header: str) -> float:
    """0 for a date, which only a client with the same clock could use, and for anything unknown."""
    is_number = header.isascii() and header.isdigit()
    return min(float(header), _MAX_RETRY_AFTER_S) if is_number else 0.0


class _Unsent(Exception):
    """A fence prevented a request from being sent."""


class _Body(aiohttp.BytesPayload):
    """A body with a fence. aiohttp sends the head together with the first bytes of the body."""

    def __init__(self, content: bytes, fence: Fence | None) -> None:
        super().__init__(content)
        self._fence = fence
        self.begun = False

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if self._fence and (refusal := self._fence()):
            raise _Unsent(refusal)
        self.begun = True
        await super().write_with_length(writer, content_length)


@contextmanager
def _api_errors(host: str, method: str, path: str, body: _Body | None = None) -> Iterator[None]:
    """Turns transport errors into ApiError without a status.

    The outcome is unknown, unless the body of the request had not been begun.
    """
    what = f"{method} {host}{path}"
    try:
        yield
    except TimeoutError as error:
        raise ApiError(f"{what}: no answer in time", reason="Timeout", unsent=_is_unsent(body)) from error
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error.__cause__, _Unsent):
            raise ApiError(str(error.__cause__), reason=FENCED, unsent=True) from error
        text = f"{what}: {failure_text(error)}"
        raise ApiError(text, reason="Unreachable", unsent=_is_unsent(body)) from error


def _is_unsent(body: _Body | None) -> bool:
    return body is not None and not body.begun
