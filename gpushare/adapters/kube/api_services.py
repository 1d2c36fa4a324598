"""Writes the CA certificates of one of our servers to its APIServices, never to those of another server.

A field manager of its own has ``spec.caBundle``, so that those who apply the rest (Pulumi, Helm,
kubectl, GitOps) neither change nor remove it.
"""

import asyncio
import base64
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import BareMeta
from gpushare.errors import ApiError, ConfigError

_PATH: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
_TIMEOUT_S: Final = 10.0
_MANAGER: Final = "gpushare-certificates"
_PAUSE_S: Final = 1.0
_WAIT_S: Final = 120.0
"""Helm creates APIServices last, after the Job that waits for them."""


class _Server(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    service: _Server | None = None
    ca_bundle: str | None = None


class _ApiService(msgspec.Struct):
    metadata: BareMeta
    spec: _Spec


@dataclass(frozen=True, slots=True)
class StoredApiService:
    """The CA certificates of an APIService, and its resourceVersion."""

    name: str
    ca_bundle: bytes
    version: str


class ApiServices:
    """The APIServices of one server, by the name of its Service."""

    def __init__(self, client: KubeClient, server: str, *, wait_s: float = _WAIT_S) -> None:
        self._client = client
        self._server = server
        self._wait_s = wait_s

    async def read(self, name: str) -> StoredApiService:
        """The APIService, once it exists. Raises ApiError, and ConfigError if it is of another server."""
        body = await self._once_there(f"{_PATH}/{name}")
        try:
            found = msgspec.json.decode(body, type=_ApiService)
            ca_bundle = base64.b64decode(found.spec.ca_bundle or "")
        except (msgspec.DecodeError, ValueError) as error:
            raise ApiError(f"APIService {name} cannot be read: {error}") from error
        server = found.spec.service.name if found.spec.service else ""
        if server != self._server:
            raise ConfigError(
                f"APIService {name}: is of Service {server!r}, not of {self._server}; register it once only"
            )
        return StoredApiService(name, ca_bundle, found.metadata.resource_version)

    async def _once_there(self, path: str) -> bytes:
        """GET the object; if it does not exist, wait for it."""
        end = asyncio.get_running_loop().time() + self._wait_s
        while True:
            try:
                return await self._client.request("GET", path, timeout_s=_TIMEOUT_S)
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND or asyncio.get_running_loop().time() >= end:
                    raise
            await asyncio.sleep(_PAUSE_S)

    async def write_ca(self, stored: StoredApiService, ca_bundle: bytes) -> None:
        """PATCH the certificates of the APIService as it was read. Raises ApiError, 409 if it has changed."""
        encoded = base64.b64encode(ca_bundle).decode()
        body = {"metadata": {"resourceVersion": stored.version}, "spec": {"caBundle": encoded}}
        path, query = f"{_PATH}/{stored.name}", {"fieldManager": _MANAGER}
        await self._client.request("PATCH", path, timeout_s=_TIMEOUT_S, query=query, body=body)
