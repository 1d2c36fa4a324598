"""The cluster, watched: nodes and pods by watches, usage by reading the exporters in rounds."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.board.control_plane import collect_control_plane
from gpushare.board.health import ControlPlane
from gpushare.board.render import board_document
from gpushare.board.routes import Document
from gpushare.board.state import (
    BoardMemory,
    BoardPod,
    BoardState,
    Lost,
    Origin,
    advanced,
    read_board_pod,
    state_of,
)
from gpushare.board.usage import Live, after_round, without_others
from gpushare.errors import ApiError, ConfigError, SourceError
from gpushare.model.demand import Malformed
from gpushare.model.modes import CGPU_PODS
from gpushare.monitoring.page import MetricSample
from gpushare.overview.exporters import PageOf, collect_series
from gpushare.overview.gpu_pods import read_node
from gpushare.overview.ledger_inputs import cgpu_pods_of, collect_unhealthy
from gpushare.overview.lists import NODES, PODS, RUNNING
from gpushare.overview.objects import ClusterNode
from gpushare.overview.watch import ReportingInformer, resource

_TIMEOUT_S: Final = 10.0
_ROUND_S: Final = 5.0
_EXPORTERS_PER_S: Final = 40
"""A load that the API server, which carries the requests, does not notice."""
_SETTLE_S: Final = 1.0
_TICK_S: Final = 5.0
_LOST_S: Final = 5.0
"""A watch that ends is usually back at once."""


class Watched:
    """The cluster and the document of its last state. ``built`` is set with the first one.

    ``page_of`` reads the pages of exporters; default: through the API server.
    """

    def __init__(
        self, client: KubeClient, report: Callable[[str], None], page_of: PageOf | None = None
    ) -> None:
        self.document = Document(b"", "")
        self.built = asyncio.Event()
        self._client = client
        self._report = report
        self._page_of = page_of
        self._changes = asyncio.Event()
        self._nodes = ReportingInformer[ClusterNode | Malformed](
            client, resource("nodes", NODES, read_node), self._changes, self._failed
        )
        self._pods = ReportingInformer[BoardPod | Malformed](
            client,
            resource("pods", PODS, read_board_pod, {"fieldSelector": RUNNING}),
            self._changes,
            self._failed,
        )
        self._origin = Origin(client.host, time.time())
        self._memory = BoardMemory()
        self._live = Live()
        self._control_plane: ControlPlane | None = None
        self._unhealthy: dict[str, frozenset[int]] = {}
        self._cgpu_pods = CGPU_PODS
        self._notes: tuple[str, ...] = ()
        self._reason = ""
        self._lost: Lost | None = None

    @property
    def missing(self) -> str | None:
        """Why there is no document yet, without what only users may know; None if there is."""
        return None if self.built.is_set() else "nodes and pods are not listed yet"

    @property
    def lost_since(self) -> float | None:
        """Since when the API server has not been heard; None while it is, and in the first seconds."""
        return self._lost.since if self._lost else None

    async def check(self) -> None:
        """Raises ApiError for an unknown server or a missing right, which are no reasons to wait."""
        for path in (NODES, PODS):
            await self._client.request("GET", path, timeout_s=_TIMEOUT_S, query={"limit": "1"})

    def jobs(self) -> Iterable[Coroutine[Any, Any, None]]:
        """The background jobs; each runs until cancelled."""
        yield self._nodes.run()
        yield self._pods.run()
        yield self._measure()
        yield self._build()

    def _failed(self, problem: str) -> None:
        self._reason = problem
        if not self.built.is_set():
            self._report(problem)
        self._changes.set()

    async def _measure(self) -> None:
        """Reads all exporters, the control plane and what ``explain`` needs, again and again."""
        await self._nodes.listed.wait()
        while True:
            (samples, problems), _ = await asyncio.gather(self._series(), self._read_settings())
            names = frozenset(name.removeprefix("/") for name in self._nodes.objects)
            # Tens of milliseconds for hundreds of nodes.
            live = await asyncio.to_thread(after_round, self._live, time.time(), samples, problems)
            self._live = without_others(live, names)
            self._changes.set()
            await asyncio.sleep(max(_ROUND_S, len(names) / _EXPORTERS_PER_S))

    async def _series(self) -> tuple[list[MetricSample], list[str]]:
        problems: list[str] = []
        try:
            samples = await collect_series(self._client, None, problems.append, self._page_of)
        except (ApiError, ConfigError, SourceError) as error:
            return [], [str(error)]
        return samples, [problem.removeprefix("warning: ") for problem in problems]

    async def _read_settings(self) -> None:
        """The control plane, unhealthy GPUs and the extender's flag; after an error, those of before."""
        notes: list[str] = []
        try:
            self._control_plane = await collect_control_plane(self._client)
            self._cgpu_pods = cgpu_pods_of(self._control_plane.pods)
            self._unhealthy = await collect_unhealthy(self._client, notes)
        except ApiError as error:
            notes.append(str(error))
        self._notes = tuple(notes)

    async def _build(self) -> None:
        """Makes the document after changes, and every few seconds."""
        await self._nodes.listed.wait()
        await self._pods.listed.wait()
        while True:
            self._changes.clear()
            self._memory, self.document = await asyncio.to_thread(_built, self._seen(), self._memory)
            self.built.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._changes.wait()
            await asyncio.sleep(_SETTLE_S)

    def _seen(self) -> Callable[[], BoardState]:
        """The state of now; it takes a while to make."""
        now = time.time()
        lost_s = max(self._nodes.lost_s, self._pods.lost_s)
        if lost_s < _LOST_S:
            self._lost = None
        else:
            since = self._lost.since if self._lost else now - lost_s
            self._lost = Lost(since, self._reason)
        return partial(
            state_of,
            self._origin,
            now,
            tuple(self._nodes.objects.values()),
            tuple(self._pods.objects.values()),
            self._live,
            lost=self._lost,
            control_plane=self._control_plane,
            unhealthy=self._unhealthy,
            cgpu_pods=self._cgpu_pods,
            notes=self._notes,
        )


def _built(make: Callable[[], BoardState], memory: BoardMemory) -> tuple[BoardMemory, Document]:
    seen = make()
    memory = advanced(memory, seen)
    return memory, document_of(seen, memory)


def document_of(seen: BoardState, memory: BoardMemory) -> Document:
    """The document as JSON."""
    return encoded(board_document(seen, memory))


def encoded(found: dict[str, Any]) -> Document:
    """A document as JSON."""
    content = msgspec.json.encode(found)
    return Document(content, blake2b(content, digest_size=16).hexdigest())
