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
from gpushare.cli.doctor.installation import Installation, Unread
from gpushare.cli.doctor.probe_checks import ProbeOutcome, stages
from gpushare.cli.doctor.probe_pod import UNITS, USER, ProbePod, ProbeRequest, manifest
from gpushare.cli.doctor.verdict import CheckFinding
from gpushare.contract import AGENT_NAME, CORE_STEP, LABEL_NO_ISOLATION
from gpushare.errors import ApiError, ConfigError
from gpushare.model.demand import Amount
from gpushare.model.modes import LIMITING, Mode, mode_of
from gpushare.overview.connection import ApiSource
from gpushare.overview.lists import pods_path
from gpushare.scheduling.book import Book

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
    seen: Installation, namespace: str | None, node: str | None, *, image: str | None, timeout_s: int
) -> ProbeRequest:
    """The pod to run; its image is by default that of a node agent, which the nodes have already.

    Raises ConfigError if no agent shows an image.
    """
    images = (each.image for pod in seen.pods_of(AGENT_NAME) for each in pod.spec.containers if each.image)
    chosen = image or next(images, None)
    if chosen is None:
        raise ConfigError("no pod of the node agent is visible, so its image cannot be used; set --image")
    core = _takes_core(seen, node)
    name = f"gpushare-probe-{secrets.token_hex(4)}"
    return ProbeRequest(namespace or "default", name, chosen, node, core, timeout_s)


def probe(
    source: ApiSource, request: ProbeRequest, seen: Installation, announce: Callable[[str], None]
) -> Sequence[CheckFinding]:
    """Runs the pod and reports each stage. Raises ConfigError, and KeyboardInterrupt after the removal.

    No pod is created where no GPU has room for it: it could evict pods of lower priority.
    """
    if _is_full(seen, request):
        where = f"of node {request.node} " if request.node else ""
        full = f"no GPU {where}has room for it, and a pod that waits can evict others"
        return list(stages(ProbeOutcome(request, rejection=full, remedy="kubectl inspect gpushare -d")))
    announce(request.announcement)
    try:
        outcome = source.ask(lambda client: _probe(client, request))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    return list(stages(replace(outcome, limits=_limits(seen, outcome.pod.spec.node_name))))


def _takes_core(seen: Installation, node: str | None) -> bool:
    """Whether the node, or each one that shares GPUs, takes only pods with a compute share."""
    if node is not None:
        labels = seen.labels_of(node)
        return labels is not None and mode_of(labels)[0] is Mode.CORE_MEM
    modes = [mode for mode, _ in _sharing(seen, node)]
    return bool(modes) and all(mode is Mode.CORE_MEM for mode in modes)


def _is_full(seen: Installation, request: ProbeRequest) -> bool:
    """Whether GPUs are shared, and none of them has room for the pod."""
    amount = Amount(UNITS, CORE_STEP if request.core else 0)
    found = [(book, (mode is Mode.CORE_MEM) == request.core) for mode, book in _sharing(seen, request.node)]
    return bool(found) and not any(
        takes and any(usage.fits(amount, frozenset({USER})) for usage in book.usages) for book, takes in found
    )


def _sharing(seen: Installation, node: str | None) -> Iterator[tuple[Mode, Book]]:
    """Modes and books of the node, or of all nodes, if they share GPUs."""
    books = {} if isinstance(seen.books, Unread) else seen.books
    for name, book in books.items():
        if node in (None, name) and book.usages and book.node and book.node.closed is None:
            yield book.node.mode, book


def _limits(seen: Installation, node: str | None) -> bool:
    """Whether the node is known to limit containers."""
    labels = seen.labels_of(node)
    return labels is not None and labels.get(LABEL_NO_ISOLATION) != "true" and mode_of(labels)[0] in LIMITING


async def _probe(client: KubeClient, request: ProbeRequest) -> ProbeOutcome:
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

    def __init__(self, client: KubeClient, request: ProbeRequest) -> None:
        self._client = client
        self._request = request
        self._path = f"{pods_path(request.namespace)}/{quote(request.name, safe='')}"
        self._pod = ProbePod()
        self._may_exist = False

    async def outcome(self) -> ProbeOutcome:
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
        return ProbeOutcome(self._request, self._pod, rejection=rejection, left=left)

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
