"""Who may see the board: users who may list nodes and the pods of all namespaces, which it shows."""

import asyncio
from http import HTTPStatus
from typing import Final

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.reviews import caller_with, review, spec_of
from gpushare.board.login import ADMITTED, Admission, fault_of
from gpushare.errors import ApiError
from gpushare.runtime.cache import FetchCache

_KEEP_S: Final = 10.0
"""As long as the API server keeps its own reviews."""
_AT_ONCE: Final = 8
"""Reviews at the same time: strangers who try tokens must not load the API server."""
_RIGHTS: Final = (("nodes", "nodes"), ("pods", "the pods of all namespaces"))
"""Resources, and their names in messages."""
_UNKNOWN: Final = Admission(
    HTTPStatus.UNAUTHORIZED, "The API server does not accept this token. It may have expired: use a new one."
)


class Admissions:
    """Admissions of tokens, kept for a few seconds."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._recent: FetchCache[str, Admission] = FetchCache(self._ask, _KEEP_S)
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def of(self, token: str) -> Admission:
        """The admission of the user whose token it is."""
        return fault_of(token) or await self._recent.get(token)

    async def _ask(self, token: str) -> Admission:
        try:
            async with self._gate:
                return await self._reviewed(token)
        except ApiError as error:
            return Admission(HTTPStatus.SERVICE_UNAVAILABLE, f"The API server cannot be asked: {error}")

    async def _reviewed(self, token: str) -> Admission:
        caller = await caller_with(self._client, token)
        if caller is None:
            return _UNKNOWN
        for resource, name in _RIGHTS:
            # Without a namespace: in all of them.
            spec = spec_of(caller, resourceAttributes={"verb": "list", "resource": resource})
            if not await review(self._client, spec):
                text = f"{caller.user} may not list {name}, which the board shows: ask an administrator."
                return Admission(HTTPStatus.FORBIDDEN, text)
        return ADMITTED
