"""Identity of clients, from the headers of the API server's front proxy.

The protocol: https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer. TLS has already
verified the front proxy's certificate against its CA.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import msgspec

from gpushare.adapters.kube.reviews import Caller
from gpushare.contract import AUTHENTICATION_CONFIG
from gpushare.errors import InvalidRequest

ANONYMOUS: Final = "system:anonymous"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
_PREFIX: Final = "requestheader-"
_CA: Final = f"{_PREFIX}client-ca-file"


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """The front proxy's CA (PEM), allowed common names and header names (lower case).

    If ``allowed`` is empty, any certificate of the CA is accepted.
    """

    ca: str
    allowed: frozenset[str]
    user: tuple[str, ...]
    uid: tuple[str, ...]
    group: tuple[str, ...]
    extra: tuple[str, ...]


def front_proxy_of(data: Mapping[str, str]) -> FrontProxy:
    """Parse the API server's ConfigMap. Raises InvalidRequest if it is incomplete."""
    if not data.get(_CA):
        raise InvalidRequest(
            f"ConfigMap {AUTHENTICATION_CONFIG} has no {_CA}: the API server has no aggregation layer, "
            "which its flags --requestheader-* and --proxy-client-* set up"
        )
    return FrontProxy(
        data[_CA],
        frozenset(_names(data, "allowed-names")),
        _headers(data, "username-headers"),
        _headers(data, "uid-headers"),
        _headers(data, "group-headers"),
        _headers(data, "extra-headers-prefix"),
    )


def caller_of(peer: str, headers: Mapping[bytes, bytes], front: FrontProxy) -> Caller | str:
    """Return the caller, or why it is not trusted. ``peer`` is the certificate's common name."""
    if not peer:
        return "no client certificate of the front proxy: ask the API server"
    if front.allowed and peer not in front.allowed:
        return f"the client certificate of {peer!r} is not that of the front proxy"
    user = next(_values(headers, front.user), "")
    if not user:
        return f"the front proxy names no user: none of the headers {', '.join(front.user)} is set"
    groups = tuple(dict.fromkeys(_values(headers, front.group)))
    if user != ANONYMOUS and not {AUTHENTICATED, UNAUTHENTICATED} & {*groups}:
        groups = (*groups, AUTHENTICATED)
    return Caller(user, next(_values(headers, front.uid), ""), groups, _extra(headers, front))


def _names(data: Mapping[str, str], key: str) -> list[str]:
    text = data.get(_PREFIX + key) or "[]"
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError as error:
        raise InvalidRequest(
            f"ConfigMap {AUTHENTICATION_CONFIG}: {_PREFIX}{key}={text!r}: {error}"
        ) from error


def _headers(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(name.lower() for name in _names(data, key))


def _values(headers: Mapping[bytes, bytes], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if value := headers.get(name.encode("latin-1")):
            yield from filter(None, value.decode("utf-8", "replace").split("\n"))


def _extra(headers: Mapping[bytes, bytes], front: FrontProxy) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found = []
    for name in sorted(headers):
        text = name.decode("latin-1")
        prefix = next((each for each in front.extra if text.startswith(each)), None)
        if prefix is not None:
            found.append((unquote(text.removeprefix(prefix)), tuple(_values(headers, [text]))))
    return tuple(found)
