"""The page of the board with a given document, without a cluster."""

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from gpushare.board.collect import document_of
from gpushare.board.history import Point
from gpushare.board.idle import Sum
from gpushare.board.local import LOOPBACK, serving
from gpushare.board.routes import Document
from gpushare.board.state import BoardMemory, BoardState, advanced
from gpushare.runtime.listener import bind_socket
from tests.support.builders.boards import GIB, Cluster

RUNS_S = 41 * 60.0
"""How long the board of the pictures has been running."""


class Page:
    """A served document that a test can replace."""

    def __init__(self, seen: BoardState, record: BoardMemory | None = None) -> None:
        self.document: Document
        self.show(seen, record)

    def show(self, seen: BoardState, record: BoardMemory | None = None) -> None:
        self.document = document_of(seen, advanced(record or BoardMemory(), seen))


@asynccontextmanager
async def served(page: Page) -> AsyncIterator[str]:
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
    points = tuple(_point(now - RUNS_S + 10 * number, number) for number in range(int(RUNS_S / 10)))
    return Page(started, BoardMemory(points, replace(record.idle, sums=sums)))


_GIB_HOURS = {"job/eval": 78.4, "job/segment": 19.1, "statefulset/llm": 17.9, "statefulset/jupyter": 7.6}
_GAP = range(90, 118)


def _point(at: float, number: int) -> Point:
    allocated = 0.60 + 0.02 * (number // 40) + (0.03 if 100 < number < 160 else 0)
    used = 0.51 + 0.06 * math.sin((number + 55) / 23) + 0.01 * math.sin(number / 3)
    return Point(at, allocated, None if number in _GAP else used, 6, 7)
