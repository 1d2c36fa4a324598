"""Decodes JSON of any depth.

The API server stores what users write into ``managedFields``, up to 10,000 levels deep, and Python decodes
about 1,000: every user who may create a pod could stop each task that lists pods. What does not belong here:
requests.
"""

from __future__ import annotations

import json
import re
from typing import Any

_DEEPEST = 64
"""Several times the depth of what is read of any object, also in a list."""
# A text, which may lack its end, or a bracket. A quote always begins a match, so the time is linear.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)


def loads(text: str) -> Any:
    """Return the document, with None in place of lists and mappings that are nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(shallow(text))


def shallow(text: str) -> str:
    """Return the JSON with null in place of lists and mappings below the deepest level that is kept."""
    parts = []
    depth = kept_from = 0
    for token in _TOKEN.finditer(text):
        if token.group() in ("[", "{"):
            depth += 1
            if depth == _DEEPEST + 1:
                parts += [text[kept_from : token.start()], "null"]
        elif token.group() in ("]", "}"):
            depth -= 1
            if depth == _DEEPEST:
                kept_from = token.end()
    if depth <= _DEEPEST:
        parts.append(text[kept_from:])
    return "".join(parts)
