"""The requests that every server gets: lengths of prompts and outputs from a seed. Pure.

No text: weights are random, so a prompt is a number of tokens, and an output ends at its length.
"""

import math
import random
from collections.abc import Sequence
from typing import Final, NamedTuple

PROMPT: Final = (128, 1024)
OUTPUT: Final = (64, 256)
LENGTH: Final = PROMPT[1] + OUTPUT[1]
"""The longest sequence of a request, in tokens."""


class Request(NamedTuple):
    """Tokens of the prompt, and tokens of the output, of which there is at least one."""

    prompt: int
    output: int


def trace(seed: int, count: int) -> tuple[Request, ...]:
    """That many requests: lengths are log-uniform within ``PROMPT`` and ``OUTPUT``.

    Uses only ``Random.random``, whose values are the same in each release of Python.
    """
    source = random.Random(seed)
    return tuple(
        Request(_between(PROMPT, source.random()), _between(OUTPUT, source.random())) for _ in range(count)
    )


def rotated(requests: Sequence[Request], server: int, servers: int) -> tuple[Request, ...]:
    """The requests of one server: all of them, so that servers have equal work, from another one on."""
    first = server * len(requests) // servers
    return (*requests[first:], *requests[:first])


def _between(bounds: tuple[int, int], part: float) -> int:
    low, high = bounds
    return round(low * math.pow(high / low, part))
