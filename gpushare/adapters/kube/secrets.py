"""Reads Secrets and replaces some of their keys."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import BareMeta
from gpushare.errors import ApiError, ConfigError

_TIMEOUT_S: Final = 10.0


class _Secret(msgspec.Struct):
    metadata: BareMeta
    data: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """The decoded data of a Secret, and its resourceVersion."""

    name: str
    data: Mapping[str, bytes]
    version: str


class Secrets:
    """The Secrets of one namespace."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def read(self, name: str) -> StoredSecret:
        """GET. Raises ConfigError if the Secret does not exist, ApiError for other failures."""
        try:
            body = await self._client.request("GET", self._path(name), timeout_s=_TIMEOUT_S)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            raise ConfigError(
                f"Secret {self._namespace}/{name} does not exist; the stack creates it (pulumi up, or "
                "kubectl apply of the rendered objects)"
            ) from error
        try:
            secret = msgspec.json.decode(body, type=_Secret)
            data = {key: base64.b64decode(text) for key, text in (secret.data or {}).items()}
        except (msgspec.DecodeError, ValueError) as error:
            raise ApiError(f"Secret {self._namespace}/{name} cannot be read: {error}") from error
        return StoredSecret(name, data, secret.metadata.resource_version)

    async def write(self, secret: StoredSecret, data: Mapping[str, bytes]) -> None:
        """PATCH these keys of the Secret as it was read. Raises ApiError, 409 if it has changed since."""
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        body = {"metadata": {"resourceVersion": secret.version}, "data": encoded}
        await self._client.request("PATCH", self._path(secret.name), timeout_s=_TIMEOUT_S, body=body)

    def _path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self._namespace}/secrets/{name}"
