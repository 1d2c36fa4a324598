"""The page of the board with a given document, without a cluster."""

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

import msgspec

from gpushare.board.collect import document_of, encoded
from gpushare.board.history import Point
from gpushare.board.idle import Sum
from gpushare.board.local import LOOPBACK, Answers, serving
from gpushare.board.namespace_document import NamespaceState, namespace_document, question_of
from gpushare.board.past import ON_ONE_MACHINE, PastSource, ranges_document
from gpushare.board.routes import HISTORY, TIMES, Document
from gpushare.board.state import BoardMemory, BoardState, Origin, advanced
from gpushare.model.usage_documents import GpuPodList
from gpushare.overview.documents import document, time_text
from gpushare.overview.explain.advice import Advice
from gpushare.overview.explain.answer import Answer, PodState
from gpushare.overview.hours import Hours
from gpushare.overview.past import RANGES, Quota, Range, tenants_content
from gpushare.runtime.http import Request, Response, text_response
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


@dataclass
class Earlier:
    """A FAKE of the answers from Prometheus. ``fault`` is the text of an error in their place."""

    available: bool = True
    empty: bool = False
    fault: str = ""
    quotas: bool = True

    async def answer(self, request: Request) -> Response:
        """As the board answers."""
        missing = PastSource("http://p" if self.available else "", way=ON_ONE_MACHINE).missing
        if request.path == TIMES:
            return Response(msgspec.json.encode(ranges_document(missing)))
        if self.fault:
            return text_response(f"{self.fault}\n", HTTPStatus.BAD_GATEWAY)
        asked = RANGES[parse_qs(request.query)["range"][0]]
        found = self._history(asked) if request.path == HISTORY else self._tenants(asked)
        return Response(msgspec.json.encode(found))

    def _history(self, asked: Range) -> dict[str, Any]:
        """Days and nights, with a gap."""
        span, total = asked.span(time.time()), 1016 * GIB
        hours = [(span.start + step * span.step_s) % 86400 / 3600 for step in range(span.steps)]
        gap = range(span.steps // 3, span.steps // 3 + span.steps // 20)
        day = [
            None if self.empty or step in gap else math.sin(hour / 3.82) for step, hour in enumerate(hours)
        ]
        lines = {
            "memoryBytes": [None if each is None else total for each in day],
            "allocatedBytes": [None if each is None else total * (0.6 - 0.2 * each) for each in day],
            "usedBytes": [None if each is None else total * (0.4 - 0.15 * each) for each in day],
            "utilizationRatio": [None if each is None else 0.3 for each in day],
        }
        return framed("GpuHistory", asked) | lines

    def _tenants(self, asked: Range) -> dict[str, Any]:
        """In proportion to the time."""
        days = Fraction(0 if self.empty else asked.seconds, 86400)
        amounts = {name: Hours(*(days * each for each in hours)) for name, hours in HOURS.items() if days}
        quotas = (
            {}
            if self.empty
            else {"notebooks": Quota(128, 96), "speech": Quota(64, 61), "trial": Quota(16, 0)}
        )
        if not self.quotas:
            note = "quotas are unknown: ada may not list resourcequotas"
            return framed("GpuTenants", asked) | tenants_content(amounts, None) | {"notes": [note]}
        return framed("GpuTenants", asked) | tenants_content(amounts, quotas) | {"notes": []}


def framed(kind: str, asked: Range) -> dict[str, Any]:
    span = asked.span(time.time())
    times = {"start": time_text(span.start), "end": time_text(span.end)}
    return document(kind, range=asked.name, **times, stepSeconds=span.step_s)


HOURS = {
    "llm-research": (230, 171, 5200, 4680),
    "speech": (61, 22, 1460, 1290),
    "vision": (58, 40, 1390, 1020),
    "notebooks": (44, 2, 1050, 190),
    "search": (12, 7, 280, 240),
}
"""Namespace → GPU-hours, used GPU-hours, GiB-hours and used GiB-hours of a day."""


@asynccontextmanager
async def served(page: Page | NamespacePage, past: Answers | None = None) -> AsyncIterator[str]:
    """The URL with the token. Without ``past``, the cluster has no Prometheus."""
    answers = past or (Earlier(available=False).answer if isinstance(page, Page) else None)
    with bind_socket(LOOPBACK, 0) as listener:
        async with serving(listener, lambda: page.document, answers) as url:
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
