"""Decodes objects of the API of any depth.

The API server stores what users write into ``managedFields``, up to 10,000 levels deep, and msgspec also
recurses through values that it skips: 1000 levels are a RecursionError in Python 3.11. Every user who may
create a pod could stop every client that lists pods.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

_DEEPEST: Final = 100
"""Several times the depth of what is read of any object, also in a list."""
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)
"""A text, which may lack its end, or a bracket. A quote always begins a match, so the time is linear."""
_PART: Final = 4000
"""Tokens between two turns of other work: about 2 ms."""


def decode(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw) -> T:
    """Return the decoded document. Raises msgspec.DecodeError."""
    try:
        return decoder.decode(body)
    except RecursionError:
        return decoder.decode(shallow(bytes(body)))


def decode_steps(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw) -> Generator[None, None, T]:
    """As ``decode``, and yield between the parts of a deep document."""
    try:
        return decoder.decode(body)
    except RecursionError:
        document = yield from shallow_steps(bytes(body))
        return decoder.decode(document)


async def decode_in_turns(
    decoder: msgspec.json.Decoder[T],
    body: bytes | msgspec.Raw,
    turn: Callable[[], Awaitable[None]] = partial(asyncio.sleep, 0),  # noqa: B008 - called at each turn
) -> T:
    """As ``decode``, and await ``turn`` between the parts of a deep document: 1.5 MB take half a second."""
    try:
        return decoder.decode(body)
    except RecursionError:
        steps = shallow_steps(bytes(body))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return decoder.decode(end.value)
        await turn()


def shallow(document: bytes) -> bytes:
    """Return the JSON with null in place of the lists and mappings below the deepest level that is kept."""
    steps = shallow_steps(document)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return bytes(end.value)


def shallow_steps(document: bytes) -> Generator[None, None, bytes]:
    """As ``shallow``, and yield between the parts of the work."""
    parts: list[bytes] = []
    depth = kept_from = 0
    for number, token in enumerate(_TOKEN.finditer(document)):
        match token[0]:
            case b"[" | b"{":
                depth += 1
                if depth == _DEEPEST + 1:
                    parts += (document[kept_from : token.start()], b"null")
            case b"]" | b"}":
                depth -= 1
                if depth == _DEEPEST:
                    kept_from = token.end()
        if number % _PART == _PART - 1:
            yield
    if depth <= _DEEPEST:  # otherwise the document ends in what is left out
        parts.append(document[kept_from:])
    return b"".join(parts)
