"""Reads Secrets, creates missing ones without data, and replaces some of their keys.

A Secret is made by the program that fills it, so that no state of Pulumi, no release of Helm and no file has
it. It is created by server-side apply, never by POST: the API server authorizes such a creation with the name
(kubernetes/kubernetes, ``endpoints/handlers/patch.go``), so that a Role can limit it to names.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import BareMeta
from gpushare.errors import ApiError

_TIMEOUT_S: Final = 10.0
_MANAGER: Final = "gpushare-secrets"


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
        """The Secret, which is created without data if it does not exist. Raises ApiError."""
        body = await read_or_create(self._client, self._namespace, name, timeout_s=_TIMEOUT_S)
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
        path = secret_path(self._namespace, secret.name)
        await self._client.request("PATCH", path, timeout_s=_TIMEOUT_S, body=body)


def secret_path(namespace: str, name: str) -> str:
    """The path of a Secret in the API."""
    return f"/api/v1/namespaces/{namespace}/secrets/{name}"


async def read_or_create(client: KubeClient, namespace: str, name: str, *, timeout_s: float) -> bytes:
    """GET the Secret; if it does not exist, create it without data. Raises ApiError.

    Of several programs that do this at once, each gets the same Secret, perhaps with data already.
    """
    path = secret_path(namespace, name)
    try:
        return await client.request("GET", path, timeout_s=timeout_s)
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    empty = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}
    return await client.request(
        "PATCH", path, timeout_s=timeout_s, query={"fieldManager": _MANAGER}, body=empty, is_apply=True
    )
