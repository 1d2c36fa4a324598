"""Lists of the API server, page by page, and the decoding of their objects."""

from collections.abc import Awaitable, Iterable, Mapping
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.decoding import decode
from gpushare.adapters.kube.wire import ListPage
from gpushare.errors import ApiError

T = TypeVar("T")

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
RUNNING: Final = "status.phase!=Succeeded,status.phase!=Failed"
TIMEOUT_S: Final = 30.0
_PAGE_SIZE: Final = 1000
_PAGE: Final = msgspec.json.Decoder(ListPage[msgspec.Raw])


def pods_path(namespace: str | None) -> str:
    """The list of the pods of a namespace, or of all."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods" if namespace else PODS


def node_path(name: str) -> str:
    """A node."""
    return f"{NODES}/{quote(name, safe='')}"


def where(namespace: str | None) -> str:
    """The namespace in words, with the way to the others."""
    return f"namespace {namespace} (-A: all namespaces)" if namespace else "any namespace"


async def listed(client: KubeClient, path: str, query: Mapping[str, str] | None = None) -> list[msgspec.Raw]:
    """All objects of a list, undecoded. Raises ApiError."""
    items: list[msgspec.Raw] = []
    token = ""
    while True:
        paging = {"limit": str(_PAGE_SIZE)} | ({"continue": token} if token else {})
        body = await client.request("GET", path, timeout_s=TIMEOUT_S, query={**(query or {}), **paging})
        try:
            page = decode(_PAGE, body)
        except msgspec.DecodeError as error:
            raise _unreadable(f"{path}: list", error) from error
        items += page.items or ()
        token = page.metadata.continue_
        if not token:
            return items


async def named_pods(client: KubeClient, name: str, namespace: str | None) -> list[msgspec.Raw]:
    """The pods of that name; several in all namespaces. Raises ApiError."""
    return await listed(client, pods_path(namespace), {"fieldSelector": f"metadata.name={name}"})


def decoded(raws: Iterable[msgspec.Raw | bytes], kind: type[T], path: str) -> list[T]:
    """The objects of a list. Raises ApiError if one of them cannot be read."""
    try:
        return [msgspec.json.decode(raw, type=kind) for raw in raws]
    except msgspec.DecodeError as error:
        raise _unreadable(f"{path}: an object", error) from error


def _unreadable(what: str, error: msgspec.DecodeError) -> ApiError:
    return ApiError(f"{what} cannot be read: {error}", reason="Unreadable")


async def if_allowed(answer: Awaitable[T]) -> T | ApiError:
    """The answer, or the error of an account without the right to it. Raises the other ApiErrors."""
    try:
        return await answer
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return error
