"""HTTP requests and answers as values, and an answer as bytes. ``server`` moves them."""

import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``path`` is decoded and without the query; header names are in lower case.

    ``body`` is None where it was larger than allowed; the connection then ends with the answer.
    """

    method: str
    path: str
    headers: dict[bytes, bytes]
    body: bytes | None
    keep_alive: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. ``headers`` are added to those of every answer."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


def text_answer(text: str, status: int = 200, *headers: tuple[str, str]) -> Answer:
    """An answer of plain text."""
    return Answer(text.encode(), status, "text/plain; charset=utf-8", headers)


Coming = Coroutine[Any, Any, Answer]
Handler = Callable[[Request], Answer | Coming]

BAD_REQUEST: Final = text_answer("Invalid HTTP request received.", HTTPStatus.BAD_REQUEST)
CRASHED: Final = text_answer("Internal Server Error", HTTPStatus.INTERNAL_SERVER_ERROR)


def head_of(answer: Answer, *, last: bool) -> bytes:
    """Status line and headers. ``last`` tells the client that the connection ends here."""
    lines = [
        f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}",
        f"date: {_date(int(time.time()))}",
        f"content-length: {len(answer.body)}",
        *(f"{name}: {value}" for name, value in answer.headers),
    ]
    if answer.content_type:
        lines.append(f"content-type: {answer.content_type}")
    if last:
        lines.append("connection: close")
    return "\r\n".join((*lines, "", "")).encode("latin-1")


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
