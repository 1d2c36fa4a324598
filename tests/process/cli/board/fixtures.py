"""The page of the board with a given document, without a cluster."""

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from gpushare.board.collect import document_of, encoded
from gpushare.board.history import Point
from gpushare.board.idle import Sum
from gpushare.board.local import LOOPBACK, serving
from gpushare.board.namespace_document import NamespaceState, namespace_document, question_of
from gpushare.board.routes import Document
from gpushare.board.state import BoardMemory, BoardState, Origin, advanced
from gpushare.model.usage_documents import GpuPodList
from gpushare.overview.explain.advice import Advice
from gpushare.overview.explain.answer import Answer, PodState
from gpushare.runtime.listener import bind_socket
from tests.support.builders.boards import GIB, Cluster, ago
from tests.support.builders.usage_documents import a10, fits, gpu_pod, running_pod, t4

RUNS_S = 41 * 60.0
"""How long the board of the pictures has been running."""


class NamespacePage:
    """The served document of a board of one namespace."""

    def __init__(self, seen: NamespaceState) -> None:
        self.document = encoded(namespace_document(seen))


def namespace_page() -> NamespacePage:
    """Running pods, one that was refused memory, one without an image, and three that wait."""
    jobs = [gpu_pod(f"finetune-{each}", 60, ("Job", "finetune"), created=ago(600)) for each in range(3)]
    pods = (
        running_pod("chat-0", 14, 12.4, owner=("StatefulSet", "chat"), created=ago(86400)),
        running_pod("eval-7", 4, 3.9, owner=("Job", "eval"), refusals=12, created=ago(12 * 3600)),
        running_pod("free", 4, 1.2, owner=("Pod", "free"), limit_bytes=None, created=ago(7200)),
        running_pod("broken", 2, 0, phase="Pending", state="ErrImagePull", created=ago(90)),
        *jobs,
    )
    remedies = (
        Advice("shrink", "request at most 22 units of aliyun.com/gpu-mem on one GPU instead of 60"),
        Advice("add-node", "add a node with a GPU of at least 60 units"),
    )
    summary = "it requests 60 GiB on one GPU; the largest free block is 16 GiB"
    found = Answer("team-a/finetune-0", PodState.NO_GPU, summary, remedies=remedies)
    origin = Origin("https://k8s.example.com:6443", time.time() - RUNS_S)
    listed, kinds = GpuPodList(items=pods), fits(a10(), t4())
    return NamespacePage(
        NamespaceState(origin, "team-a", time.time(), listed, kinds, {question_of(jobs[0]): found})
    )


class Page:
    """A served document that a test can replace."""

    def __init__(self, seen: BoardState, record: BoardMemory | None = None) -> None:
        self.document: Document
        self.show(seen, record)

    def show(self, seen: BoardState, record: BoardMemory | None = None) -> None:
        self.document = document_of(seen, advanced(record or BoardMemory(), seen))


@asynccontextmanager
async def served(page: Page | NamespacePage) -> AsyncIterator[str]:
    """The URL with the token."""
    with bind_socket(LOOPBACK, 0) as listener:
        async with serving(listener, lambda: page.document) as url:
            yield url


def page_of(cluster: Cluster) -> Page:
    """The page of a board that has run for a while, with a gap in the usage."""
    now = time.time()
    seen = cluster.state(now)
    started = replace(seen, origin=replace(seen.origin, started=now - RUNS_S))
    record = advanced(BoardMemory(), started)
    sums = {name: Sum(3600 * GIB * _GIB_HOURS.get(name[1], 0.1)) for name in record.idle.sums}
    last = record.history[-1]
    points = tuple(_point(now - RUNS_S + 10 * number, number, last) for number in range(int(RUNS_S / 10)))
    return Page(started, BoardMemory(points, replace(record.idle, sums=sums)))


_GIB_HOURS = {"job/eval": 78.4, "job/segment": 19.1, "statefulset/llm": 17.9, "statefulset/jupyter": 7.6}
_GAP = range(90, 118)


def _point(at: float, number: int, last: Point) -> Point:
    """A point before the last one, and not far from it."""
    allocated = (last.allocated or 0) - 0.12 + 0.02 * (number // 40) + (0.03 if 100 < number < 160 else 0)
    used = (last.used or 0) - 0.03 + 0.06 * math.sin((number + 55) / 23) + 0.01 * math.sin(number / 3)
    return Point(at, allocated, None if number in _GAP else used, 6, 7)
