"""A small Kubernetes client for the testbed, fast and with few dependencies.

What belongs here: requests, errors, concurrent requests. What does not: the objects.
"""

import asyncio
import json
import ssl
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from devkit.waiting import together
from gpushare.errors import ApiError

Object = dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"
_TIMEOUT_S = 30.0
_CONCURRENCY = 32


def tls(ca_file: Path, cert_file: Path, key_file: Path) -> ssl.SSLContext:
    """Return the TLS context of a client with a certificate, for servers of the authority ``ca_file``."""
    context = ssl.create_default_context(cafile=str(ca_file))
    context.load_cert_chain(str(cert_file), str(key_file))
    return context


async def read_text(
    url: str, context: ssl.SSLContext | None = None, *, post: str | None = None, timeout_s: float = 2.0
) -> str:
    """Return the response of ``url`` to GET, or to a POST of ``post``.

    Raises ApiError if there is no response, or a status other than 200.
    """
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    method = "GET" if post is None else "POST"
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(method, url, data=post, ssl=context or True) as reply,
        ):
            text = await reply.text()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ApiError(f"{method} {url}: no answer: {error!r}") from error
    if reply.status != HTTPStatus.OK:
        raise ApiError(f"{method} {url}: {reply.status} {text}", status=reply.status)
    return text


class Api:
    """An API client of one user. Close it, or use it as an async context."""

    def __init__(self, url: str, context: ssl.SSLContext) -> None:
        self.url = url
        self._context = context
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout_s: float = _TIMEOUT_S,
    ) -> Object:
        """Send one request and return the response; raise ApiError for none, or a status other than 2xx."""
        try:
            async with self._open().request(
                method,
                self.url + path,
                data=None if body is None else json.dumps(body),
                params=params,
                headers={"Content-Type": content_type},
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as reply:
                return _answer(f"{method} {path}", reply.status, await reply.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiError(f"{method} {path}: no answer from {self.url}: {error!r}") from error

    async def get(self, path: str, **params: str) -> Object:
        """Return one object, or a list object."""
        return await self.request("GET", path, params=params)

    async def items(self, path: str, **params: str) -> list[Object]:
        """Return the items of a list."""
        items: list[Object] = (await self.get(path, **params))["items"]
        return items

    async def create(self, path: str, body: Mapping[str, Any]) -> Object:
        """POST an object to the path of its collection."""
        return await self.request("POST", path, body)

    async def patch(self, path: str, body: Mapping[str, Any]) -> Object:
        """Apply a JSON merge patch: null removes a key."""
        return await self.request("PATCH", path, body, content_type=MERGE_PATCH)

    async def delete(self, path: str, **params: str) -> Object:
        """DELETE an object; params such as ``gracePeriodSeconds="0"`` go into the query."""
        return await self.request("DELETE", path, params=params)

    async def create_many(
        self, bodies: Iterable[tuple[str, Mapping[str, Any]]], concurrency: int = _CONCURRENCY
    ) -> list[Object]:
        """POST pairs of path and object, in order, ``concurrency`` at a time; raise the first ApiError."""
        gate = asyncio.Semaphore(concurrency)

        async def one(path: str, body: Mapping[str, Any]) -> Object:
            async with gate:
                return await self.create(path, body)

        return await together(one(path, body) for path, body in bodies)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._context, limit=0)
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session


def _answer(what: str, status: int, content: bytes) -> Object:
    try:
        document = json.loads(content)
    except ValueError:
        document = {"message": content.decode(errors="replace")}
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return dict(document)
    retry = (document.get("details") or {}).get("retryAfterSeconds", 0)
    raise ApiError(
        f"{what}: {status} {document.get('message', '')}",
        status=status,
        reason=document.get("reason", ""),
        retry_after_s=retry,
    )
