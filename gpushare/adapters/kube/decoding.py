"""Decodes objects of the API of any depth.

The API server stores what users write into ``managedFields``, up to 10,000 levels deep, and msgspec also
recurses through values that it skips: 1000 levels are a RecursionError in Python 3.11. Every user who may
create a pod could stop every client that lists pods.
"""

import re
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

_DEEPEST: Final = 100
"""Several times the depth of what is read of any object, also in a list."""
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)
"""A text, which may lack its end, or a bracket. A quote always begins a match, so the time is linear."""


def decode(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw) -> T:
    """Return the decoded document. Raises msgspec.DecodeError."""
    try:
        return decoder.decode(body)
    except RecursionError:
        return decoder.decode(shallow(bytes(body)))


def shallow(document: bytes) -> bytes:
    """Return the JSON with null in place of the lists and mappings below the deepest level that is kept."""
    parts: list[bytes] = []
    depth = kept_from = 0
    for token in _TOKEN.finditer(document):
        match token[0]:
            case b"[" | b"{":
                depth += 1
                if depth == _DEEPEST + 1:
                    parts += (document[kept_from : token.start()], b"null")
            case b"]" | b"}":
                depth -= 1
                if depth == _DEEPEST:
                    kept_from = token.end()
    if depth <= _DEEPEST:  # otherwise the document ends in what is left out
        parts.append(document[kept_from:])
    return b"".join(parts)
