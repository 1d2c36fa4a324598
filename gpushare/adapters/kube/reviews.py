"""Reviews by the API server: whose a token is, and what a client may do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from gpushare.adapters.kube.client import KubeClient
from gpushare.errors import ApiError

S = TypeVar("S", bound=Struct)

_TIMEOUT_S: Final = 5.0
_ACCESS: Final = ("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews")
_TOKEN: Final = ("authentication.k8s.io/v1", "TokenReview", "tokenreviews")


@dataclass(frozen=True, slots=True)
class Caller:
    """A client of the API server, with the fields of a SubjectAccessReview."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class _Access(Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(Struct):
    status: _Access = msgspec.field(default_factory=_Access)


class _User(Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _Token(Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(Struct):
    status: _Token = msgspec.field(default_factory=_Token)


def spec_of(caller: Caller, **attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a SubjectAccessReview with these attributes."""
    identity = {
        "user": caller.user,
        "uid": caller.uid,
        "groups": caller.groups,
        "extra": dict(caller.extra),
    }
    return {**identity, **attributes}


async def review(client: KubeClient, spec: Mapping[str, Any]) -> bool:
    """Return whether a SubjectAccessReview allows ``spec``. Raises ApiError if it fails."""
    verdict = (await _reviewed(client, _ACCESS, spec, _AccessReview)).status
    return verdict.allowed and not verdict.denied


async def caller_with(client: KubeClient, token: str) -> Caller | None:
    """Return whose token it is; None if it is invalid. Raises ApiError if the review fails."""
    found = (await _reviewed(client, _TOKEN, {"token": token}, _TokenReview)).status
    if not (found.authenticated and found.user.username):
        return None
    user = found.user
    return Caller(user.username, user.uid, user.groups or (), tuple(sorted((user.extra or {}).items())))


async def _reviewed(
    client: KubeClient, kind: tuple[str, str, str], spec: Mapping[str, Any], answer: type[S]
) -> S:
    version, name, path = kind
    body = {"apiVersion": version, "kind": name, "spec": spec}
    reply = await client.request("POST", f"/apis/{version}/{path}", timeout_s=_TIMEOUT_S, body=body)
    try:
        return msgspec.json.decode(reply, type=answer)
    except msgspec.DecodeError as error:
        raise ApiError(f"the {name} cannot be read: {error}", reason="Unreadable") from error
