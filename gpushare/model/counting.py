"""How far the isolation library's count may be from what the driver says, before somebody is told.

A little always lies between the two: contexts are counted by a guess until they are measured, and code and
buffers of the driver are not counted. Events of the node agent and alerts go by the same rule.
"""

from typing import Final

MUCH_BYTES: Final = 512 * 1024 * 1024
"""More than one process's context and code take beyond what the library was told to count for them."""
MUCH_OF_LIMIT: Final = 0.25


def is_much(uncounted_bytes: int, limit_bytes: int) -> bool:
    """Whether a container with that limit on a card has clearly more of it than was counted."""
    return uncounted_bytes > MUCH_BYTES and uncounted_bytes > MUCH_OF_LIMIT * limit_bytes
