"""Numbers and lists of names in sentences. Pure."""

from collections.abc import Sequence
from typing import Final

_SHOWN: Final = 5


def listed(names: Sequence[str]) -> str:
    """At most five names, and the number of the others."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def counted(count: int, noun: str) -> str:
    """``1 node``, ``2,000 nodes``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
