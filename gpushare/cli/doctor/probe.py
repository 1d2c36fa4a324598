"""``doctor --probe``: runs a short-lived pod through the whole chain, and removes it, also if interrupted."""

import asyncio
import secrets
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.cli.cluster import ApiSource, pods_path
from gpushare.cli.doctor.checks import Finding
from gpushare.cli.doctor.probe_checks import Outcome, stages
from gpushare.cli.doctor.probe_pod import UNITS, ProbePod, Request, manifest
from gpushare.cli.doctor.snapshot import Snapshot, Unread
from gpushare.contract import AGENT_NAME, LABEL_NO_ISOLATION
from gpushare.errors import ApiError, ConfigError
from gpushare.model.modes import LIMITING, Mode, mode_of

_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.5
_GIVEN_UP: Final = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"),
        *("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"),
    }
)
"""Reasons of a waiting container that the kubelet repeats without end."""
_decode = msgspec.json.Decoder(ProbePod).decode


def request_for(
    snapshot: Snapshot, namespace: str | None, node: str | None, *, image: str | None, timeout_s: int
) -> Request:
    """The pod to run; its image is by default that of a node agent, which the nodes have already.

    Raises ConfigError if no agent shows an image.
    """
    images = (
        each.image for pod in snapshot.pods_of(AGENT_NAME) for each in pod.spec.containers if each.image
    )
    chosen = image or next(images, None)
    if chosen is None:
        raise ConfigError("no pod of the node agent is visible, whose image the probe could use; set --image")
    core = _mode(snapshot, node) is Mode.CORE_MEM
    name = f"gpushare-probe-{secrets.token_hex(4)}"
    return Request(namespace or "default", name, chosen, node, core, timeout_s)


def probe(
    source: ApiSource, request: Request, snapshot: Snapshot, announce: Callable[[str], None]
) -> Sequence[Finding]:
    """Runs the pod and reports each stage. Raises ConfigError, and KeyboardInterrupt after the removal.

    No pod is created where no unit is free: it could evict pods of lower priority.
    """
    if _is_full(snapshot, request.node):
        where = f"of node {request.node} " if request.node else ""
        full = f"no GPU {where}has a free unit, and a pod that waits for one can evict others"
        return list(stages(Outcome(request, rejection=full, remedy="kubectl inspect gpushare -d")))
    announce(request.announcement)
    try:
        outcome = asyncio.run(_probe(source, request))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    return list(stages(replace(outcome, limits=_mode(snapshot, outcome.pod.spec.node_name) in LIMITING)))


def _is_full(snapshot: Snapshot, node: str | None) -> bool:
    """Whether GPUs are shared, and none of them has a free unit."""
    books = {} if isinstance(snapshot.books, Unread) else snapshot.books
    sharing = [book for name, book in books.items() if node in (None, name) and book.usages]
    return bool(sharing) and all(book.most_free < UNITS for book in sharing)


def _mode(snapshot: Snapshot, node: str | None) -> Mode | None:
    """The sharing mode of the node; None if it cannot be read or limits no container."""
    nodes = [] if isinstance(snapshot.nodes, Unread) else snapshot.nodes
    labels = next((each.metadata.labels or {} for each in nodes if each.metadata.name == node), None)
    if labels is None or labels.get(LABEL_NO_ISOLATION) == "true":
        return None
    return mode_of(labels)[0]


async def _probe(source: ApiSource, request: Request) -> Outcome:
    async with await source.client() as client:
        with _cancelled_by_signals():
            return await _Run(client, request).outcome()


@contextmanager
def _cancelled_by_signals() -> Iterator[None]:
    """SIGINT and SIGTERM cancel this task, so that the pod is removed.

    By default, asyncio cancels it for SIGINT in the middle of any callback, which then fails.
    """
    if task := asyncio.current_task():
        with suppress(ValueError, RuntimeError):  # only the main thread has signals, and not on all systems
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    yield


class _Run:
    """One pod."""

    def __init__(self, client: KubeClient, request: Request) -> None:
        self._client = client
        self._request = request
        self._path = f"{pods_path(request.namespace)}/{quote(request.name, safe='')}"
        self._pod = ProbePod()
        self._may_exist = False

    async def outcome(self) -> Outcome:
        """How far the pod came; it is removed in any case."""
        rejection = left = ""
        try:
            await self._create()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._request.timeout_s):
                    await self._follow()
        except ApiError as error:
            rejection = str(error)
        finally:
            left = await self._remove() if self._may_exist else ""
        return Outcome(self._request, self._pod, rejection=rejection, left=left)

    async def _create(self) -> None:
        path, body = pods_path(self._request.namespace), manifest(self._request)
        self._may_exist = True
        try:
            self._pod = _pod_of(await self._client.request("POST", path, body=body, timeout_s=_TIMEOUT_S))
        except ApiError as error:
            self._may_exist = not error.clear
            raise

    async def _follow(self) -> None:
        """Returns when the outcome is known. A failed read is repeated."""
        while not _is_decided(self._pod):
            await asyncio.sleep(_POLL_S)
            with suppress(ApiError):
                self._pod = _pod_of(await self._client.request("GET", self._path, timeout_s=_TIMEOUT_S))

    async def _remove(self) -> str:
        """Why the pod is still there; empty if it is not. Its name is unique, so it is no other pod."""
        try:
            await self._client.request("DELETE", self._path, timeout_s=_TIMEOUT_S)
        except ApiError as error:
            return "" if error.status == HTTPStatus.NOT_FOUND else str(error)
        return ""


def _pod_of(body: bytes) -> ProbePod:
    try:
        return _decode(body)
    except msgspec.DecodeError as error:
        raise ApiError(f"the pod cannot be read: {error}") from error


def _is_decided(pod: ProbePod) -> bool:
    waiting = pod.held_up is not None and pod.held_up.reason in _GIVEN_UP
    return pod.terminated is not None or pod.refused or waiting
