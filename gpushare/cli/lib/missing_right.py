"""Who can give a right that a request lacked, with the setting or command that gives it. Pure.

A command says it in one line below the refusal of the API server.
"""

import re
from http import HTTPStatus
from shlex import quote
from typing import Final

from gpushare.contract import SYSTEM_NAMESPACE
from gpushare.errors import ApiError, ConfigError

_REFUSAL: Final = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "[^"]*"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
"""kubernetes, staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go, v1.36."""
_ACCOUNT: Final = re.compile(r"system:serviceaccount:([^:]+):([^:]+)")
_READING: Final = frozenset({"get", "list", "watch"})
VIEWERS: Final = (
    "An administrator can grant the right: name a group of this user under monitoring.viewers of gpushare "
    "(`kubectl auth whoami` shows the groups)."
)


def refused(error: ApiError) -> ApiError | ConfigError:
    """The error with the way to the right; the error itself if it has another cause."""
    if error.status != HTTPStatus.FORBIDDEN:
        return error
    return ConfigError(f"{str(error).rstrip('.')}.\n{way_to_right(str(error))}")


def way_to_right(refusal: str) -> str:
    """One sentence: who can give the right, and how. ``refusal`` is the text of the API server."""
    found = _REFUSAL.search(refusal)
    namespace = found["namespace"] if found else None
    if found is None or namespace in (None, SYSTEM_NAMESPACE):
        return VIEWERS
    role = "view" if found["verb"] in _READING else "edit"
    return (
        f"An administrator of namespace {namespace} can grant the right: kubectl create rolebinding "
        f"gpushare-{role} -n {namespace} --clusterrole={role} {_subject(found['user'])}"
    )


def _subject(user: str) -> str:
    account = _ACCOUNT.fullmatch(user)
    return f"--serviceaccount={account[1]}:{account[2]}" if account else f"--user={quote(user)}"
