"""One namespace, read from the usage API in rounds, for a user with no rights outside of it."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from gpushare.adapters.kube.client import KubeClient
from gpushare.board.collect import encoded
from gpushare.board.namespace_document import (
    NamespaceState,
    Question,
    namespace_document,
    pending_of,
    question_of,
)
from gpushare.board.pending import EXPLAINED
from gpushare.board.routes import Document
from gpushare.board.state import Lost, Origin
from gpushare.errors import ApiError
from gpushare.model.usage_documents import GpuPod
from gpushare.overview.explain.answer import Answer
from gpushare.overview.usage_api import explanation_of, fits_in, usage_of

_ROUND_S: Final = 5.0
_EXPLAIN_S: Final = 30.0
"""Each explanation takes the server up to a second in a large cluster."""


class WatchedNamespace:
    """The namespace and the document of its last state. ``built`` is set with the first one."""

    def __init__(self, client: KubeClient, namespace: str, report: Callable[[str], None]) -> None:
        self.document = Document(b"", "")
        self.built = asyncio.Event()
        self._client = client
        self._namespace = namespace
        self._report = report
        self._origin = Origin(client.host, time.time())
        self._seen: NamespaceState | None = None
        self._answers: dict[Question, Answer] = {}
        self._explained_at = 0.0

    async def check(self) -> None:
        """Raises ApiError for an account or a cluster without the usage API."""
        await usage_of(self._client, self._namespace)

    def jobs(self) -> Iterable[Coroutine[Any, Any, None]]:
        """The background job; it runs until cancelled."""
        yield self._follow()

    async def _follow(self) -> None:
        while True:
            try:
                self._seen = await self._read()
            except ApiError as error:
                self._fail(error)
            if self._seen:
                self.document = encoded(namespace_document(self._seen))
                self.built.set()
            await asyncio.sleep(_ROUND_S)

    def _fail(self, error: ApiError) -> None:
        """The figures stay, with the time since when they are old."""
        if self._seen is None:
            self._report(str(error))
        else:
            since = self._seen.lost.since if self._seen.lost else time.time()
            self._seen = replace(self._seen, lost=Lost(since, str(error)))

    async def _read(self) -> NamespaceState:
        pods, fits = await asyncio.gather(
            usage_of(self._client, self._namespace), fits_in(self._client, self._namespace, 1, 1)
        )
        await self._explain(pending_of(pods.items))
        return NamespaceState(self._origin, self._namespace, time.time(), pods, fits, dict(self._answers))

    async def _explain(self, waiting: Iterable[GpuPod]) -> None:
        """Asks about each question anew from time to time, and at once about new ones."""
        first = {question_of(pod): pod.metadata.name for pod in reversed(list(waiting))}
        asked = dict(list(reversed(first.items()))[:EXPLAINED])
        if time.monotonic() - self._explained_at > _EXPLAIN_S:
            self._explained_at = time.monotonic()
            self._answers = {}
        found = {key: answer for key, answer in self._answers.items() if key in asked}
        for question in asked.keys() - found.keys():
            # Without an answer, such as about a pod that is gone by now, the next round asks again.
            with suppress(ApiError):
                found[question] = await explanation_of(self._client, self._namespace, asked[question])
        self._answers = found
